{{- define "standin.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- define "standin.nfd" -}}
{{- $nfd := index .Values "node-feature-discovery" | default dict -}}
{{- $nfd.fullnameOverride | default (printf "%s-node-feature-discovery" .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- define "standin.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- /* A webhook of a stand-in, which has no server: it is registered, is never called, and a policy of the API server
refuses what the real one refuses. In: top, service, configuration, hook, group, resource, right (what an object must be, in
CEL), says. */ -}}
{{- define "standin.webhook" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .service }}
  labels:
    {{- include "standin.labels" .top | nindent 4 }}
spec:
  selector: {app.kubernetes.io/instance: {{ .top.Release.Name }}, app.kubernetes.io/component: manager}
  ports: [{port: 443, targetPort: 9443}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: {{ .configuration }}
  labels:
    {{- include "standin.labels" .top | nindent 4 }}
webhooks:
  - name: {{ .hook }}
    admissionReviewVersions: [v1]
    sideEffects: None
    clientConfig:
      service: {name: {{ .service }}, namespace: {{ .top.Release.Namespace }}}
      caBundle: c3RhbmQtaW4=
    matchConditions: [{name: never, expression: "false"}]
    rules: [{apiGroups: [{{ .group }}], apiVersions: ["*"], operations: [CREATE], resources: [{{ .resource }}]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .hook }}
  labels:
    {{- include "standin.labels" .top | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [{{ .group }}], apiVersions: ["*"], operations: [CREATE], resources: [{{ .resource }}]}]
  validations:
    - {expression: {{ .right | quote }}, message: {{ .says | quote }}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .hook }}
  labels:
    {{- include "standin.labels" .top | nindent 4 }}
spec: {policyName: {{ .hook }}, validationActions: [Deny]}
{{- end -}}
