apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata:
  name: agentgateway
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  controllerName: agentgateway.dev/agentgateway
