apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-deployment-router
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.routerSpec.replicaCount }}
  selector:
    matchLabels: {app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: router}
  template:
    metadata:
      labels: {app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: router}
    spec:
      serviceAccountName: {{ include "standin.fullname" . }}
      containers:
        - name: router-container
          image: "{{ .Values.routerSpec.repository }}:{{ .Values.routerSpec.tag }}"
