apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata:
  name: kgateway
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  controllerName: kgateway.dev/kgateway
