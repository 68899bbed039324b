{{- include "standin.webhook" (dict "top" .
  "service" "kubeflow-trainer-controller-manager" "configuration" "kubeflow-trainer-controller-manager" "hook" "validator.trainjob.trainer.kubeflow.org"
  "group" "trainer.kubeflow.org" "resource" "trainjobs"
  "right" `object.spec.runtimeRef.kind in ['TrainingRuntime', 'ClusterTrainingRuntime']`
  "says" "unsupported runtime") }}
