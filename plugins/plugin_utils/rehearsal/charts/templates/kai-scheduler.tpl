{{- /* The stand-in hands its groups to the API server's own gang scheduling: a pod that names kai-scheduler as
its scheduler and a group becomes a member of the group of that name. The real scheduler serves that name, too. */ -}}
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: {{ .Release.Name }}-pods
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE]
        resources: [pods]
  matchConditions:
    - name: scheduler
      expression: object.spec.schedulerName == 'kai-scheduler'
    - name: group
      expression: >-
        has(object.metadata.annotations) && 'pod-group-name' in object.metadata.annotations
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: >-
          Object{spec: Object.spec{schedulingGroup: Object.spec.schedulingGroup{
          podGroupName: object.metadata.annotations['pod-group-name']}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {{ .Release.Name }}-pods
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  policyName: {{ .Release.Name }}-pods
