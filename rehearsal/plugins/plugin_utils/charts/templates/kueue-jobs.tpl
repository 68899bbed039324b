{{- /* Kueue's webhook suspends a Job that names a queue (kubernetes-sigs/kueue, pkg/controller/jobframework/defaults.go);
the stand-in of its controller resumes it. */ -}}
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: {{ .Release.Name }}-jobs
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
      - apiGroups: [batch]
        apiVersions: [v1]
        operations: [CREATE]
        resources: [jobs]
  matchConditions:
    - name: queue
      expression: has(object.metadata.labels) && 'kueue.x-k8s.io/queue-name' in object.metadata.labels
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: 'Object{spec: Object.spec{suspend: true}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {{ .Release.Name }}-jobs
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  policyName: {{ .Release.Name }}-jobs
