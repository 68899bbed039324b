{{- /* The real chart has the Controller and NodeSets alone, of which the operator makes the StatefulSets. */}}
{{- $persistence := .Values.controller.persistence }}
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata:
  name: slurm
  namespace: {{ .Release.Namespace }}
spec: {}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: slurm-controller
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  serviceName: slurm-controller
  replicas: 1
  selector:
    matchLabels: {app.kubernetes.io/name: slurmctld, app.kubernetes.io/instance: slurm, app.kubernetes.io/component: controller}
  template:
    metadata:
      labels: {app.kubernetes.io/name: slurmctld, app.kubernetes.io/instance: slurm, app.kubernetes.io/component: controller}
    spec:
      tolerations: {{ .Values.controller.podSpec.tolerations | default list | toJson }}
      nodeSelector: {{ .Values.controller.podSpec.nodeSelector | default dict | toJson }}
      containers:
        - {name: slurmctld, image: "rehearsal/slurmctld:{{ .Chart.AppVersion }}"}
  {{- if $persistence.enabled }}
  volumeClaimTemplates:
    - metadata: {name: statesave}
      spec:
        accessModes: {{ $persistence.accessModes | toJson }}
        storageClassName: {{ $persistence.storageClassName | toJson }}
        resources: {requests: {storage: {{ $persistence.size }}}}
  {{- end }}
{{- range $name, $set := .Values.nodesets }}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata:
  name: slurm-worker-{{ $name }}
  namespace: {{ $.Release.Namespace }}
spec:
  controllerRef: {name: slurm, namespace: {{ $.Release.Namespace }}}
  replicas: {{ $set.replicas | default 1 }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: slurm-worker-{{ $name }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "standin.labels" $ | nindent 4 }}
spec:
  serviceName: slurm-worker-{{ $name }}
  replicas: {{ $set.replicas | default 1 }}
  selector:
    matchLabels: {app.kubernetes.io/name: slurmd, app.kubernetes.io/instance: slurm-worker-{{ $name }}, app.kubernetes.io/component: worker}
  template:
    metadata:
      labels: {app.kubernetes.io/name: slurmd, app.kubernetes.io/instance: slurm-worker-{{ $name }}, app.kubernetes.io/component: worker}
    spec:
      tolerations: {{ dig "podSpec" "tolerations" list $set | toJson }}
      nodeSelector: {{ dig "podSpec" "nodeSelector" dict $set | toJson }}
      containers:
        - name: slurmd
          image: "rehearsal/slurmd:{{ $.Chart.AppVersion }}"
          resources: {{ dig "slurmd" "resources" dict $set | toJson }}
{{- end }}
