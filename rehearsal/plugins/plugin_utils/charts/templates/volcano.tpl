{{- /* The stand-in hands its groups to the API server's own gang scheduling: a pod that names volcano as its
scheduler and a group becomes a member of the group of that name. The real scheduler serves the name volcano, too. */ -}}
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
      expression: object.spec.schedulerName == 'volcano'
    - name: group
      expression: >-
        has(object.metadata.annotations) && 'scheduling.k8s.io/group-name' in object.metadata.annotations
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: >-
          Object{spec: Object.spec{schedulingGroup: Object.spec.schedulingGroup{
          podGroupName: object.metadata.annotations['scheduling.k8s.io/group-name']}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {{ .Release.Name }}-pods
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  policyName: {{ .Release.Name }}-pods
---
{{ include "standin.webhook" (dict "top" .
  "service" (printf "%s-admission-service" .Release.Name) "configuration" "volcano-admission-service-jobs-validate" "hook" "validatejob.volcano.sh"
  "group" "batch.volcano.sh" "resource" "jobs"
  "right" `has(object.spec.tasks) && object.spec.tasks.all(one, object.spec.tasks.exists_one(other, other.name == one.name))`
  "says" "duplicated task name") }}
