{{- $full := .Values.fullnameOverride | default (printf "%s-kube-prometheus" .Release.Name) | trunc 26 | trimSuffix "-" }}
{{- $spec := .Values.prometheus.prometheusSpec }}
{{- $release := dict "matchLabels" (dict "release" .Release.Name) }}
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata:
  name: {{ $full }}-prometheus
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "standin.labels" . | nindent 4 }}
    app: {{ .Chart.Name }}-prometheus
    release: {{ .Release.Name }}
spec:
  replicas: 1
  portName: http-web
  ruleNamespaceSelector: {}
  ruleSelector: {{ ternary $release dict $spec.ruleSelectorNilUsesHelmValues | toJson }}
  serviceMonitorNamespaceSelector: {}
  serviceMonitorSelector: {{ ternary $release dict $spec.serviceMonitorSelectorNilUsesHelmValues | toJson }}
  alerting:
    alertmanagers:
      - {name: {{ $full }}-alertmanager, namespace: {{ .Release.Namespace }}, port: http-web, apiVersion: v2, pathPrefix: /}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $full }}-prometheus
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "standin.labels" . | nindent 4 }}
    app: {{ .Chart.Name }}-prometheus
    release: {{ .Release.Name }}
spec:
  selector: {app.kubernetes.io/name: prometheus, prometheus: {{ $full }}-prometheus}
  ports:
    - {name: http-web, port: 9090, targetPort: 9090}
    - {name: reloader-web, port: 8080, targetPort: reloader-web}
{{- if .Values.alertmanager.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: Alertmanager
metadata:
  name: {{ $full }}-alertmanager
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "standin.labels" . | nindent 4 }}
    app: {{ .Chart.Name }}-alertmanager
    release: {{ .Release.Name }}
spec:
  replicas: 1
  portName: http-web
  alertmanagerConfigNamespaceSelector: {}
  alertmanagerConfigSelector: {}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $full }}-alertmanager
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "standin.labels" . | nindent 4 }}
    app: {{ .Chart.Name }}-alertmanager
    release: {{ .Release.Name }}
spec:
  selector: {app.kubernetes.io/name: alertmanager, alertmanager: {{ $full }}-alertmanager}
  ports:
    - {name: http-web, port: 9093, targetPort: 9093}
    - {name: reloader-web, port: 8080, targetPort: reloader-web}
{{- end }}
{{- /* Who watches the control plane (prometheus-community/helm-charts, charts/kube-prometheus-stack/templates/exporters:
on unless it is switched off); with each come alerts such as KubeControllerManagerDown. */ -}}
{{- range $name, $job := dict "kubeControllerManager" "kube-controller-manager" "kubeEtcd" "kube-etcd" "kubeScheduler" "kube-scheduler" }}
{{- if dig $name "enabled" true $.Values.AsMap }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ $full }}-{{ $job }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "standin.labels" $ | nindent 4 }}
    release: {{ $.Release.Name }}
spec:
  jobLabel: jobLabel
  namespaceSelector: {matchNames: [kube-system]}
  selector:
    matchLabels: {app: {{ $full }}-{{ $job }}}
  endpoints: [{port: http-metrics}]
{{- end }}
{{- end }}
