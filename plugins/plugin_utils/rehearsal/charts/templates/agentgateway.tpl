apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata:
  name: agentgateway
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  controllerName: agentgateway.dev/agentgateway
status:
  conditions:
    - {type: Accepted, status: "True", reason: Accepted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
