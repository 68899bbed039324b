{{- $gpus := .Values.resources.gpus.enabled }}
{{- $domains := .Values.resources.computeDomains.enabled }}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "standin.fullname" . }}-kubelet-plugin
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "standin.labels" . | nindent 4 }}
    app.kubernetes.io/name: nvidia-dra-driver-gpu
    nvidia-dra-driver-gpu-component: kubelet-plugin
spec:
  selector:
    matchLabels:
      app.kubernetes.io/instance: {{ .Release.Name }}
      nvidia-dra-driver-gpu-component: kubelet-plugin
  template:
    metadata:
      labels:
        {{- include "standin.labels" . | nindent 8 }}
        app.kubernetes.io/name: nvidia-dra-driver-gpu
        nvidia-dra-driver-gpu-component: kubelet-plugin
    spec:
      serviceAccountName: {{ include "standin.fullname" . }}
      {{- with .Values.kubeletPlugin.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .Values.kubeletPlugin.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.kubeletPlugin.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions: [{key: feature.node.kubernetes.io/pci-10de.present, operator: In, values: ["true"]}]
              - matchExpressions: [{key: nvidia.com/gpu.present, operator: In, values: ["true"]}]
      containers:
        {{- if $domains }}
        - name: compute-domains
          image: rehearsal/compute-domain-kubelet-plugin:{{ .Chart.AppVersion }}
          env: [{name: NVIDIA_DRIVER_ROOT, value: {{ $.Values.nvidiaDriverRoot | quote }}}]
        {{- end }}
        {{- if $gpus }}
        - name: gpus
          image: rehearsal/gpu-kubelet-plugin:{{ .Chart.AppVersion }}
          env: [{name: NVIDIA_DRIVER_ROOT, value: {{ $.Values.nvidiaDriverRoot | quote }}}]
        {{- end }}
{{- define "standin.deviceclass" }}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: {{ .name }}
spec:
  selectors:
    - cel:
        expression: {{ printf "device.driver == '%s' && device.attributes['%s'].type == '%s'%s" .driver .driver .type (.more | default "") | quote }}
{{- end }}
{{- if $gpus }}
{{- include "standin.deviceclass" (dict "name" "gpu.nvidia.com" "driver" "gpu.nvidia.com" "type" "gpu") }}
{{- include "standin.deviceclass" (dict "name" "mig.nvidia.com" "driver" "gpu.nvidia.com" "type" "mig") }}
{{- include "standin.deviceclass" (dict "name" "vfio.gpu.nvidia.com" "driver" "gpu.nvidia.com" "type" "vfio") }}
{{- end }}
{{- if $domains }}
{{- include "standin.deviceclass" (dict "name" "compute-domain-daemon.nvidia.com" "driver" "compute-domain.nvidia.com" "type" "daemon") }}
{{- include "standin.deviceclass" (dict "name" "compute-domain-default-channel.nvidia.com" "driver" "compute-domain.nvidia.com" "type" "channel" "more" " && device.attributes['compute-domain.nvidia.com'].id == 0") }}
{{- end }}
