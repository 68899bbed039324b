{{- /* The stand-in has no server: the webhook is registered, is never called, and a policy of the API server refuses what
the real one refuses. */ -}}
apiVersion: v1
kind: Service
metadata:
  name: kubeflow-trainer-controller-manager
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  selector: {app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: manager}
  ports: [{port: 443, targetPort: 9443}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: kubeflow-trainer-controller-manager
  labels:
    {{- include "standin.labels" . | nindent 4 }}
webhooks:
  - name: validator.trainjob.trainer.kubeflow.org
    admissionReviewVersions: [v1]
    sideEffects: None
    clientConfig:
      service: {name: kubeflow-trainer-controller-manager, namespace: {{ .Release.Namespace }}}
      caBundle: c3RhbmQtaW4=
    matchConditions: [{name: never, expression: "false"}]
    rules: [{apiGroups: [trainer.kubeflow.org], apiVersions: ["*"], operations: [CREATE], resources: [trainjobs]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: validator.trainjob.trainer.kubeflow.org
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [trainer.kubeflow.org], apiVersions: ["*"], operations: [CREATE], resources: [trainjobs]}]
  validations:
    - {expression: "object.spec.runtimeRef.kind in ['TrainingRuntime', 'ClusterTrainingRuntime']", message: unsupported runtime}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: validator.trainjob.trainer.kubeflow.org
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec: {policyName: validator.trainjob.trainer.kubeflow.org, validationActions: [Deny]}
