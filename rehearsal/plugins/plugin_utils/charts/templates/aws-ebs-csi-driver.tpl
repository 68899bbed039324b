{{- range .Values.storageClasses }}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: {{ .name }}
  labels:
    {{- include "standin.labels" $ | nindent 4 }}
  {{- with .annotations }}
  annotations: {{ toJson . }}
  {{- end }}
provisioner: ebs.csi.aws.com
parameters: {{ .parameters | default dict | toJson }}
{{- with .volumeBindingMode }}
volumeBindingMode: {{ . }}
{{- end }}
{{- end }}
