{{- /* A definition as prometheus-operator/prometheus-operator has it (example/prometheus-operator-crd): as large, and with
what readers of YAML 1.1 stumble over: a bare `=` in the list of match types, and dates that are texts. */ -}}
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
{{- with .Values.annotations }}
{{- toYaml . | nindent 4 }}
{{- end }}
    operator.prometheus.io/version: {{ .Chart.AppVersion }}
    rehearsal.gpufleet.invalid/since: 2026-01-02
  name: alertmanagerconfigs.monitoring.coreos.com
spec:
  group: monitoring.coreos.com
  names:
    kind: AlertmanagerConfig
    listKind: AlertmanagerConfigList
    plural: alertmanagerconfigs
    shortNames:
    - amcfg
    singular: alertmanagerconfig
  scope: Namespaced
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
        properties:
          spec:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties:
              since:
                type: string
                default: 2026-01-02
              inhibitRules:
                type: array
                items:
                  type: object
                  properties:
                    sourceMatch:
                      type: array
                      items:
                        type: object
                        properties:
                          matchType:
                            enum:
                            - '!='
                            - =
                            - =~
                            - '!~'
                            type: string
                          name:
                            type: string
                          value:
                            type: string
{{- range $number := until 600 }}
              receiver{{ $number }}:
                type: object
                description: |-
                  receiver{{ $number }} sends a notification. {{ repeat 8 "Its settings may refer to keys of a Secret. " }}
                properties:
                  sendResolved:
                    type: boolean
{{- end }}
    served: true
    storage: true
    subresources:
      status: {}
