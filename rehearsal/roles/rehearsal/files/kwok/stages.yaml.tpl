# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# How KWOK plays the nodes and pods of a rehearsal. What happens to a pod is steered by its annotations:
#   rehearsal.gpufleet.invalid/hold       the pod stays Pending on its node (an image that never comes)
#   rehearsal.gpufleet.invalid/exit-code  the pod ends with that exit code; without it no pod ever ends by itself
#   rehearsal.gpufleet.invalid/fault      the pod's containers keep failing; the value is the reason (CrashLoopBackOff);
#                                         when it is taken away they run
# and to a node by its annotation:
#   rehearsal.gpufleet.invalid/not-ready  the node is NotReady; the value is the message
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: node-up
spec:
  resourceRef:
    apiGroup: v1
    kind: Node
  selector:
    matchExpressions:
      - key: '.metadata.annotations["rehearsal.gpufleet.invalid/not-ready"]'
        operator: DoesNotExist
      - key: '.status.conditions.[] | select( .type == "Ready" ) | .status'
        operator: NotIn
        values:
          - "True"
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range NodeConditions }}
      - type: {{ .type | Quote }}
        status: {{ .status | Quote }}
        reason: {{ .reason | Quote }}
        message: {{ .message | Quote }}
        lastHeartbeatTime: {{ $now | Quote }}
        lastTransitionTime: {{ $now | Quote }}
      {{ end }}
      addresses:
      - type: InternalIP
        address: {{ NodeIP | Quote }}
      - type: Hostname
        address: {{ NodeName | Quote }}
      daemonEndpoints:
        kubeletEndpoint:
          Port: {{ NodePort }}
      phase: Running
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: node-down
spec:
  resourceRef:
    apiGroup: v1
    kind: Node
  selector:
    matchExpressions:
      - key: '.metadata.annotations["rehearsal.gpufleet.invalid/not-ready"]'
        operator: Exists
      - key: '.status.conditions.[] | select( .type == "Ready" ) | .status'
        operator: NotIn
        values:
          - "False"
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      - type: Ready
        status: "False"
        reason: KubeletNotReady
        message: {{ index .metadata.annotations "rehearsal.gpufleet.invalid/not-ready" | Quote }}
        lastHeartbeatTime: {{ $now | Quote }}
        lastTransitionTime: {{ $now | Quote }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-run
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
      - key: '.metadata.deletionTimestamp'
        operator: DoesNotExist
      - key: '.metadata.annotations["rehearsal.gpufleet.invalid/hold"]'
        operator: DoesNotExist
      - key: '.metadata.annotations["rehearsal.gpufleet.invalid/fault"]'
        operator: DoesNotExist
      - key: '.status.phase'
        operator: In
        values:
          - Pending
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
      - type: {{ . }}
        status: "True"
        lastTransitionTime: {{ $now | Quote }}
      {{ end }}
      {{ range .spec.readinessGates }}
      - type: {{ .conditionType | Quote }}
        status: "True"
        lastTransitionTime: {{ $now | Quote }}
      {{ end }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: {{ .image | Quote }}
        ready: true
        started: true
        restartCount: 0
        state:
          running:
            startedAt: {{ $now | Quote }}
      {{ end }}
      {{ with .spec.initContainers }}
      initContainerStatuses:
      {{ range . }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: {{ .image | Quote }}
        ready: true
        restartCount: 0
        {{ if eq (or .restartPolicy "") "Always" }}
        started: true
        state:
          running:
            startedAt: {{ $now | Quote }}
        {{ else }}
        state:
          terminated:
            exitCode: 0
            reason: Completed
            startedAt: {{ $now | Quote }}
            finishedAt: {{ $now | Quote }}
        {{ end }}
      {{ end }}
      {{ end }}
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
      {{ $podIP := PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) }}
      podIP: {{ $podIP | Quote }}
      podIPs:
      - ip: {{ $podIP | Quote }}
      phase: Running
      startTime: {{ $now | Quote }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-end
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
      - key: '.metadata.deletionTimestamp'
        operator: DoesNotExist
      - key: '.metadata.annotations["rehearsal.gpufleet.invalid/exit-code"]'
        operator: Exists
      - key: '.status.phase'
        operator: In
        values:
          - Running
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $root := . }}
      {{ $code := index .metadata.annotations "rehearsal.gpufleet.invalid/exit-code" }}
      conditions:
      {{ range list "ContainersReady" "Ready" }}
      - type: {{ . }}
        status: "False"
        reason: {{ if eq $code "0" }}PodCompleted{{ else }}PodFailed{{ end }}
        lastTransitionTime: {{ $now | Quote }}
      {{ end }}
      containerStatuses:
      {{ range $index, $item := .spec.containers }}
      {{ $before := index $root.status.containerStatuses $index }}
      - name: {{ $item.name | Quote }}
        image: {{ $item.image | Quote }}
        imageID: {{ $item.image | Quote }}
        ready: false
        started: false
        restartCount: 0
        state:
          terminated:
            exitCode: {{ $code }}
            reason: {{ if eq $code "0" }}Completed{{ else }}Error{{ end }}
            {{ with index $root.metadata.annotations "rehearsal.gpufleet.invalid/termination-message" }}
            message: {{ . | Quote }}
            {{ end }}
            startedAt: {{ $before.state.running.startedAt | Quote }}
            finishedAt: {{ $now | Quote }}
      {{ end }}
      phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-fault
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
      - key: '.metadata.deletionTimestamp'
        operator: DoesNotExist
      - key: '.metadata.annotations["rehearsal.gpufleet.invalid/fault"]'
        operator: Exists
      - key: '.status.phase'
        operator: In
        values:
          - Pending
          - Running
      - key: '.status.conditions.[] | select( .type == "ContainersReady" ) | .reason'
        operator: NotIn
        values:
          - ContainersNotReady
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $reason := index .metadata.annotations "rehearsal.gpufleet.invalid/fault" }}
      conditions:
      {{ range list "ContainersReady" "Ready" }}
      - type: {{ . }}
        status: "False"
        reason: ContainersNotReady
        lastTransitionTime: {{ $now | Quote }}
      {{ end }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: {{ .image | Quote }}
        ready: false
        started: false
        restartCount: 5
        state:
          waiting:
            reason: {{ $reason | Quote }}
      {{ end }}
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
      phase: Running
      startTime: {{ or .status.startTime $now | Quote }}
---
# A pod that runs and is not Ready any more: its containers no longer fail, or the node controller marked it while the
# node did not renew its Lease (kubernetes/kubernetes pkg/util/node: MarkPodsNotReady sets condition Ready alone). A
# kubelet that is back writes its own status again (pkg/kubelet/status: needsReconcile).
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-recover
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
      - key: '.metadata.deletionTimestamp'
        operator: DoesNotExist
      - key: '.metadata.annotations["rehearsal.gpufleet.invalid/fault"]'
        operator: DoesNotExist
      - key: '.status.phase'
        operator: In
        values:
          - Running
      - key: '.status.conditions.[] | select( .type == "Ready" ) | .status'
        operator: In
        values:
          - "False"
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $failed := false }}
      {{ range .status.conditions }}
      {{ if and (eq .type "ContainersReady") (eq (or .reason "") "ContainersNotReady") }}
      {{ $failed = true }}
      {{ end }}
      {{ end }}
      conditions:
      {{ range list "ContainersReady" "Ready" }}
      - type: {{ . }}
        status: "True"
        reason: ""
        lastTransitionTime: {{ $now | Quote }}
      {{ end }}
      {{ if $failed }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: {{ .image | Quote }}
        ready: true
        started: true
        restartCount: 5
        state:
          running:
            startedAt: {{ $now | Quote }}
        lastState:
          terminated:
            exitCode: 1
            reason: Error
            startedAt: {{ $now | Quote }}
            finishedAt: {{ $now | Quote }}
      {{ end }}
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-delete
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
      - key: '.metadata.deletionTimestamp'
        operator: Exists
  next:
    delete: true
---
# A kubelet takes the object away once its containers have ended and their devices are free, and not before
# (kubernetes/website: Pod Lifecycle, termination of Pods).
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-delete
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
      - key: '.metadata.deletionTimestamp'
        operator: Exists
      - key: '.metadata.annotations["rehearsal.gpufleet.invalid/hold-devices"]'
        operator: DoesNotExist
  delay:
    durationMilliseconds: 300
  next:
    delete: true
