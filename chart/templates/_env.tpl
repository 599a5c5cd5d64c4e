{{- /* Environment of the workload container, in one list without doubles: what identifies the pod, then the
recipe's own numbers, then the person's variables and secrets. */ -}}
{{- define "a4.env" -}}
- name: JOB_COMPLETION_INDEX
  valueFrom:
    fieldRef:
      fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
- name: JOB_UUID
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']
- name: A4_PLACED_BY
  valueFrom:
    fieldRef:
      fieldPath: metadata.annotations['kueue.x-k8s.io/workload']
- name: A4_PLACED_HOW
  {{- if and (include "a4.queued" .) (ne .Values.topology.request "none") }}
  value: {{ printf "%s %s" .Values.topology.request .Values.topology.level | quote }}
  {{- else }}
  valueFrom:
    fieldRef:
      fieldPath: metadata.annotations['kueue.x-k8s.io/podset-unconstrained-topology']
  {{- end }}
- name: JOB_IDENTIFIER
  value: {{ .Release.Name }}-$(JOB_UUID)
{{- range $name, $value := include "a4.fixedEnv" . | fromYaml }}
{{- if not (or (hasKey $.Values.env $name) (hasKey $.Values.secrets $name)) }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.env }}
{{- if not (hasKey $.Values.secrets $name) }}
{{- /* Transformer Engine refuses an interface that is not there. */ -}}
{{- if and (eq $name "NVTE_UB_SOCKET_IFNAME") (eq $value "eth1") (not (include "a4.eth1" $)) }}{{- $value = "eth0" }}{{- end }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- range $name, $reference := .Values.secrets }}
- name: {{ $name | quote }}
  valueFrom:
    secretKeyRef:
      name: {{ index (splitList "/" $reference) 0 | quote }}
      key: {{ index (splitList "/" $reference) 1 | quote }}
{{- end }}
{{- end -}}

{{- /* What a4 hang and a4 slow need; PyTorch writes the rank behind the paths. */ -}}
{{- define "a4.diagnosisEnv" -}}
NCCL_RAS_ENABLE: "1"
TORCH_FR_BUFFER_SIZE: "2000"
TORCH_NCCL_TRACE_BUFFER_SIZE: "2000"
TORCH_NCCL_DEBUG_INFO_PIPE_FILE: /tmp/a4-recorder-
TORCH_FR_DUMP_TEMP_FILE: /tmp/a4-recorder-dump-
TORCH_NCCL_DEBUG_INFO_TEMP_FILE: /tmp/a4-recorder-dump-
TORCH_NCCL_DUMP_ON_TIMEOUT: "1"
TORCH_NCCL_ENABLE_TIMING: "1"
{{- end -}}

{{- define "a4.fixedEnv" -}}
A4_RECIPE: {{ .Values.recipe.id | quote }}
A4_DISCOVERY_SECONDS: {{ int .Values.discovery | quote }}
A4_GRACE_SECONDS: {{ int .Values.grace | quote }}
JOB_ID: {{ .Release.Name | quote }}
JOB_ORCHESTRATOR: gke
HOSTNAME_PREFIX: {{ .Release.Name }}-workload-
DOMAIN_NAME: {{ include "a4.domain" . }}
RANK_0_FQDN: {{ include "a4.rank0" . }}
MASTER_ADDR: {{ include "a4.rank0" . }}
MASTER_PORT: {{ int .Values.network.masterPort | quote }}
WORLD_SIZE: {{ int .Values.gpus | quote }}
NNODES: {{ include "a4.nodes" . | quote }}
GPUS_PER_NODE: {{ include "a4.gpusPerNode" . | quote }}
SLEEP_INFINITY: {{ .Values.keepAlive | quote }}
{{- with .Values.storage.logs }}
A4_LOG_FOLDER: {{ . | quote }}
{{- end }}
SSH_PUBLIC_KEY: {{ .Values.ssh.publicKey | quote }}
NCCL_DEBUG: {{ .Values.network.nccl.debug }}
NCCL_SOCKET_IFNAME: {{ .Values.network.nccl.socketInterfaces | quote }}
{{- if .Values.network.gib.enabled }}
NCCL_PLUGIN_PATH: /usr/local/gib/lib64
{{- if include "a4.small" . }}
{{- /* gIB finds no RDMA card there, and NCCL fails when the network that it is told to use has none. */}}
NCCL_NET: Socket
{{- else }}
NCCL_NET: gIB
NCCL_INIT_SCRIPT: /usr/local/gib/scripts/set_nccl_env.sh
{{- if .Values.network.nccl.tuner }}
NCCL_TUNER_CONFIG_PATH: /usr/local/gib/configs/{{ .Values.network.nccl.tuner }}
{{- end }}
{{- end }}
{{- end }}
{{- with include "a4.ncclPreset" . }}
{{ . }}
{{- end }}
{{- with include "a4.ownNccl" . }}
A4_NCCL_OWN: {{ . | quote }}
{{- end }}
{{- if .Values.diagnosis }}
{{ include "a4.diagnosisEnv" . }}
{{- end }}
A4_SSH: {{ ternary "required" "optional" (has .Values.recipe.id (list "nccl-all-reduce" "connectivity" "interactive")) }}
{{- include "a4.recipeEnv" . }}
{{- end -}}

{{- /* NCCL settings that a person chose: gIB's script may not undo them. */ -}}
{{- define "a4.ownNccl" -}}
{{- $names := keys (include "a4.ncclPreset" . | fromYaml) -}}
{{- range $name, $_ := .Values.env -}}
{{- if hasPrefix "NCCL_" $name -}}{{- $names = append $names $name -}}{{- end -}}
{{- end -}}
{{- $names | sortAlpha | uniq | join " " -}}
{{- end -}}
