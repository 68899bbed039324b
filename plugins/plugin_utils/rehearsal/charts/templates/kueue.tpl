{{- /* The stand-in has no server: the webhook is registered, is never called, and a policy of the API server refuses what
the real one refuses. */ -}}
apiVersion: v1
kind: Service
metadata:
  name: kueue-webhook-service
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  selector: {app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: manager}
  ports: [{port: 443, targetPort: 9443}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: kueue-controller-manager
  labels:
    {{- include "standin.labels" . | nindent 4 }}
webhooks:
  - name: vclusterqueue.kb.io
    admissionReviewVersions: [v1]
    sideEffects: None
    clientConfig:
      service: {name: kueue-webhook-service, namespace: {{ .Release.Namespace }}}
      caBundle: c3RhbmQtaW4=
    matchConditions: [{name: never, expression: "false"}]
    rules: [{apiGroups: [kueue.x-k8s.io], apiVersions: ["*"], operations: [CREATE], resources: [clusterqueues]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: vclusterqueue.kb.io
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [kueue.x-k8s.io], apiVersions: ["*"], operations: [CREATE], resources: [clusterqueues]}]
  validations:
    - {expression: "!has(object.spec.resourceGroups) || object.spec.resourceGroups.all(a, object.spec.resourceGroups.exists_one(b, b.coveredResources == a.coveredResources))", message: a resource is covered twice}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: vclusterqueue.kb.io
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec: {policyName: vclusterqueue.kb.io, validationActions: [Deny]}
