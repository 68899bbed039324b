{{- /* The stand-in hands its groups to the API server's own gang scheduling: a pod that names kai-scheduler as
its scheduler and a group becomes a member of the group of that name. The real scheduler serves that name, too. A pod
of a workload is grouped by KAI itself, a Job's with minMember 1, unless kai.scheduler/skip-podgrouper is "true"
(kai-scheduler/KAI-Scheduler, docs/batch/README.md, External PodGroups): such a pod is placed by itself here. The queues
are those of the chart's values (deployments/kai-scheduler/values.yaml: defaultQueue), which the real one makes at the
first installation alone. */ -}}
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
    - name: own-group
      expression: >-
        !has(object.metadata.ownerReferences) || object.metadata.ownerReferences.size() == 0 ||
        ('kai.scheduler/skip-podgrouper' in object.metadata.annotations &&
        object.metadata.annotations['kai.scheduler/skip-podgrouper'] == 'true')
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
{{- with .Values.defaultQueue }}
{{- if .createDefaultQueue }}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: {{ .parentName }}
  labels:
    {{- include "standin.labels" $ | nindent 4 }}
spec:
  resources: {{ toJson .parentResources }}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: {{ .childName }}
  labels:
    {{- include "standin.labels" $ | nindent 4 }}
spec:
  parentQueue: {{ .parentName }}
  resources: {{ toJson .childResources }}
{{- end }}
{{- end }}
