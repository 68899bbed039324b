apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "standin.fullname" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "standin.labels" . | nindent 4 }}
  annotations: {rehearsal/external-rules: {{ .Values.rules.external | toJson | quote }}}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {app.kubernetes.io/name: prometheus-adapter, app.kubernetes.io/instance: {{ .Release.Name }}}
  template:
    metadata:
      labels: {app.kubernetes.io/name: prometheus-adapter, app.kubernetes.io/instance: {{ .Release.Name }}}
      {{- with index .Chart.Annotations "rehearsal.gpufleet.invalid/fault" }}
      annotations: {rehearsal.gpufleet.invalid/fault: {{ . }}}
      {{- end }}
    spec:
      serviceAccountName: {{ include "standin.fullname" . }}
      securityContext: {{ toJson .Values.podSecurityContext }}
      nodeSelector: {{ .Values.nodeSelector | default dict | toJson }}
      tolerations: {{ .Values.tolerations | default list | toJson }}
      containers:
        - name: prometheus-adapter
          image: "rehearsal/prometheus-adapter:{{ .Chart.AppVersion }}"
          securityContext: {{ toJson .Values.securityContext }}
