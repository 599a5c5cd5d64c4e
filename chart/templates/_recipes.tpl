{{- /* What each recipe's launcher reads from the environment. Values of the same meaning have one name, whichever
recipe reads them; a path that does not begin with a slash lies in the workspace. */ -}}
{{- define "a4.under" -}}
{{- if or (hasPrefix "/" .path) (eq .path "") (eq .path "none") -}}{{ .path }}{{- else -}}{{ .root }}/{{ .path }}{{- end -}}
{{- end -}}

{{- /* Where results go: the bucket that is mounted, of several the one at /gcs, else the workspace. */ -}}
{{- define "a4.results" -}}
{{- $folders := list -}}
{{- range $_, $mount := .Values.storage.gcs -}}{{- $folders = append $folders (splitn ":" 2 $mount)._0 -}}{{- end -}}
{{- if has "/gcs" $folders -}}/gcs{{- else if eq (len $folders) 1 -}}{{ first $folders }}{{- else -}}{{ .Values.recipe.workspace }}{{- end -}}
{{- end -}}

{{- define "a4.recipeEnv" -}}
{{- $id := .Values.recipe.id -}}
{{- if has $id (list "nccl-all-reduce" "nccl-one-pod") }}
{{ include "a4.ncclEnv" . }}
{{- else if hasPrefix "qwen3-" $id }}
{{ include "a4.megatronEnv" . }}
{{- if not (has $id (list "qwen3-download" "qwen3-eval")) }}
{{ include "a4.conversionEnv" . }}
{{- end }}
{{- if not (has $id (list "qwen3-to-mcore" "qwen3-to-hf" "qwen3-next-to-mcore" "qwen3-eval")) }}
{{ include "a4.dataEnv" . }}
{{- end }}
{{- if not (has $id (list "qwen3-to-mcore" "qwen3-to-hf" "qwen3-next-to-mcore" "qwen3-eval" "qwen3-download")) }}
{{ include "a4.trainingEnv" . }}
{{- end }}
{{- if eq $id "qwen3-eval" }}
{{ include "a4.evaluationEnv" . }}
{{- end }}
{{- else if hasPrefix "swift-" $id }}
{{ include "a4.swiftEnv" . }}
{{- else if eq $id "own-script" }}
A4_CONFIG_PATH: {{ printf "%s/%s" .Values.recipe.script.configFolder .Values.recipe.script.configFile | quote }}
{{- end }}
{{- end -}}

{{- define "a4.ncclEnv" -}}
A4_NCCL_BEGIN: {{ .Values.recipe.nccl.begin | quote }}
A4_NCCL_END: {{ .Values.recipe.nccl.end | quote }}
A4_NCCL_FACTOR: {{ int .Values.recipe.nccl.factor | quote }}
A4_NCCL_ITERS: {{ int .Values.recipe.nccl.iterations | quote }}
A4_NCCL_WARMUP: {{ int .Values.recipe.nccl.warmup | quote }}
{{- end -}}

{{- define "a4.megatronEnv" -}}
{{- $root := .Values.recipe.workspace -}}
{{- with .Values.recipe -}}
PAI_WORKSPACE_ROOT: {{ $root | quote }}
SKIP_ENV_SETUP: {{ .skip.environment | quote }}
SKIP_CLONE_REPO: {{ .skip.clone | quote }}
SKIP_DOWNLOAD_DATA: {{ .skip.download | quote }}
SKIP_DATA_BUILD: {{ .skip.data | quote }}
SKIP_CHECKPOINT_CONVERSION: {{ .skip.conversion | quote }}
SKIP_TRAINING: {{ .skip.training | quote }}
A4_CODE: {{ include "a4.under" (dict "root" $root "path" .code.folder) | quote }}
A4_CODE_REPOSITORY: {{ .code.repository | quote }}
A4_CODE_REVISION: {{ .code.revision | quote }}
A4_PACKAGES: {{ join " " .packages.plain | quote }}
A4_BUILT_PACKAGES: {{ join " " .packages.built | quote }}
A4_UPGRADE_NCCL: {{ .packages.upgradeNccl | quote }}
{{- end }}
A4_HF_FOLDER: {{ include "a4.modelFolder" (dict "top" . "kind" "folder") | quote }}
{{- end -}}

{{- /* The model: the one that is named, else the one of the size. */ -}}
{{- define "a4.modelId" -}}
{{- $size := .Values.recipe.model.size -}}
{{- if .Values.recipe.model.id -}}{{ .Values.recipe.model.id }}
{{- else if hasPrefix "qwen3-next-" .Values.recipe.id -}}Qwen/Qwen3-Next-80B-A3B-Instruct
{{- else -}}Qwen/Qwen3-{{ get (dict "A3B" "30B-A3B" "A22B" "235B-A22B") $size | default $size }}
{{- end -}}
{{- end -}}

{{- /* A folder of the model (kind folder, mcore or exported): the one that is named, else one by the model's name, so
that two models never meet in it. */ -}}
{{- define "a4.modelFolder" -}}
{{- $name := base (include "a4.modelId" .top) -}}
{{- $next := contains "Qwen3-Next" $name -}}
{{- $own := dict
  "folder" (printf "%s/%s" (ternary "ckpts/huggingface" "qwen-ckpts" $next) $name)
  "mcore" (printf "%s/%s-to-mcore" (ternary "ckpts/mcore" "qwen-ckpts" $next) $name)
  "exported" (printf "%s/%s-mcore-to-hf" (ternary "ckpts/huggingface" "qwen-ckpts" $next) $name) -}}
{{- include "a4.under" (dict "root" .top.Values.recipe.workspace "path" (get .top.Values.recipe.model .kind | default (get $own .kind))) -}}
{{- end -}}

{{- define "a4.conversionEnv" -}}
A4_MODEL_ID: {{ include "a4.modelId" . | quote }}
A4_MCORE_FOLDER: {{ include "a4.modelFolder" (dict "top" . "kind" "mcore") | quote }}
A4_EXPORT_FOLDER: {{ include "a4.modelFolder" (dict "top" . "kind" "exported") | quote }}
{{- with .Values.recipe }}
A4_FAMILY: {{ ternary "qwen3_next" "qwen3" (hasPrefix "qwen3-next-" .id) }}
A4_MODEL_SIZE: {{ .model.size | quote }}
A4_CONVERT_CUDA: {{ .convert.cuda | quote }}
A4_CONVERT_PR: {{ .convert.precision | quote }}
{{- with .convert.parallel }}
MODEL_PARALLEL_ARGS: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "a4.dataEnv" -}}
{{- $root := .Values.recipe.workspace -}}
{{- if eq .Values.recipe.id "qwen3-download" }}
A4_MODEL_ID: {{ include "a4.modelId" . | quote }}
{{- end }}
{{- with .Values.recipe }}
A4_MODEL_HUB: {{ .model.hub | quote }}
A4_DATA_FOLDER: {{ include "a4.under" (dict "root" $root "path" .data.folder) | quote }}
A4_DATA_FILES: {{ join " " .data.files | quote }}
A4_SFT_SOURCE: {{ include "a4.under" (dict "root" $root "path" .data.source) | quote }}
A4_SFT_PREFIX: {{ include "a4.under" (dict "root" $root "path" .data.prefix) | quote }}
A4_TOKENIZER: {{ .data.tokenizer | quote }}
{{- end }}
{{- end -}}

{{- /* The script's 27 arguments, by the names of its own documentation. */ -}}
{{- define "a4.trainingEnv" -}}
{{- $root := .Values.recipe.workspace -}}
{{- $weights := include "a4.modelFolder" (dict "top" . "kind" "mcore") -}}
{{- with .Values.recipe.train -}}
A4_RESUME: {{ $.Values.recipe.resume | quote }}
A4_SAVE_OPTIMIZER: {{ .saveOptimizer | quote }}
A4_ENV: {{ ternary "dlc" "dsw" (eq .environment "many") }}
A4_BATCH_SIZE: {{ int .batch | quote }}
A4_GLOBAL_BATCH_SIZE: {{ int .globalBatch | quote }}
A4_LR: {{ .lr | quote }}
A4_MIN_LR: {{ .minLr | quote }}
A4_SEQ_LEN: {{ int .sequence | quote }}
A4_PAD_LEN: {{ int .padding | quote }}
A4_PR: {{ .precision | quote }}
A4_TP: {{ int .tp | quote }}
A4_PP: {{ int .pp | quote }}
A4_CP: {{ int .cp | quote }}
A4_ETP: {{ int .etp | quote }}
A4_EP: {{ int .ep | quote }}
A4_SP: {{ .sp | quote }}
A4_DO: {{ .optimizer | quote }}
A4_FL: {{ .flash | quote }}
A4_SFT: {{ .sft | quote }}
A4_AC: {{ .recompute | quote }}
A4_OPTIMIZER_OFFLOAD: {{ .offload | quote }}
A4_SAVE_INTERVAL: {{ int .saveInterval | quote }}
A4_DATASET_PATH: {{ include "a4.under" (dict "root" $root "path" .dataset) | quote }}
A4_VALID_DATASET_PATH: {{ include "a4.under" (dict "root" $root "path" (.validation | default .dataset)) | quote }}
A4_PRETRAIN_CHECKPOINT_PATH: {{ include "a4.under" (dict "root" $root "path" (.checkpoint | default $weights)) | quote }}
A4_TRAIN_TOKENS_OR_ITERS: {{ int64 .amount | quote }}
A4_WARMUP_TOKENS_OR_ITERS: {{ int64 .warmup | quote }}
A4_OUTPUT_BASEPATH: {{ include "a4.under" (dict "root" (include "a4.results" $) "path" .output) | quote }}
A4_TRAIN_ITERATIONS: {{ ternary (int64 .amount) (div (div (int64 .amount) (int64 .globalBatch)) (int64 .sequence)) .sft | quote }}
TRAINING_MODE: {{ ternary "sft" "pretrain" .sft }}
USE_JSON_SFT: {{ .alsoJson | quote }}
MP_DATASET_TYPE: {{ .dataType | quote }}
MP_AC_LAYERS: {{ int .recomputeLayers | quote }}
MP_SFT_PACKING: {{ .packing | quote }}
{{- if .virtualStage }}
MP_VP: {{ int .virtualStage | quote }}
{{- end }}
{{- if .firstStage }}
MP_PP0_LAYERS: {{ int .firstStage | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "a4.evaluationEnv" -}}
A4_EXPORT_FOLDER: {{ include "a4.modelFolder" (dict "top" . "kind" "exported") | quote }}
{{- with .Values.recipe.eval }}
A4_EVAL_TASKS: {{ join "," .tasks | quote }}
A4_EVAL_BATCH: {{ int .batch | quote }}
A4_EVAL_PORT: {{ int .port | quote }}
A4_EVAL_TRUST: {{ ternary "True" "False" .trustCode | quote }}
A4_EVAL_FILES: {{ join " " .data | quote }}
A4_EVAL_SOURCE: {{ .source | quote }}
{{- end }}
{{- end -}}

{{- /* The branch that this version of SWIFT clones by itself. */ -}}
{{- define "a4.megatronBranch" -}}
{{- if .megatronBranch -}}{{- .megatronBranch -}}
{{- else if semverCompare "<3.10" .version -}}core_r0.13.0
{{- else if semverCompare "<3.12" .version -}}core_r0.14.0
{{- else -}}core_r0.15.0
{{- end -}}
{{- end -}}

{{- /* Paths stay as they are given: the launcher works inside the workspace. */ -}}
{{- define "a4.swiftEnv" -}}
{{- $root := .Values.recipe.workspace -}}
PAI_WORKSPACE_ROOT: {{ $root | quote }}
{{- with .Values.recipe.swift }}
MEGATRON_LM_PATH: {{ include "a4.under" (dict "root" $root "path" .megatron) | quote }}
MODELSCOPE_CACHE: {{ include "a4.under" (dict "root" $root "path" .cache) | quote }}
A4_MEGATRON_BRANCH: {{ include "a4.megatronBranch" . | quote }}
A4_SWIFT_VERSION: {{ .version | quote }}
A4_SWIFT_LOAD: {{ .load | quote }}
A4_SWIFT_EXTRA: {{ join "\n" .extra | quote }}
{{- if eq $.Values.recipe.id "swift-export" }}
A4_SWIFT_SOURCE: {{ .source | quote }}
A4_SWIFT_DTYPE: {{ .dtype | quote }}
A4_SWIFT_TEST: {{ .testPrecision | quote }}
{{- else }}
A4_RESUME: {{ $.Values.recipe.resume | quote }}
A4_SWIFT_DATASETS: {{ join "\n" .datasets | quote }}
A4_SWIFT_MAX_LENGTH: {{ int .maxLength | quote }}
A4_SWIFT_GLOBAL_BATCH: {{ int .globalBatch | quote }}
A4_SWIFT_MICRO_BATCH: {{ int .batch | quote }}
A4_SWIFT_TP: {{ int .tp | quote }}
A4_SWIFT_SP: {{ .sp | quote }}
A4_SWIFT_RECOMPUTE: {{ .recompute | quote }}
A4_SWIFT_RECOMPUTE_LAYERS: {{ int .recomputeLayers | quote }}
A4_SWIFT_EPOCHS: {{ int .epochs | quote }}
A4_SWIFT_LR: {{ .lr | quote }}
A4_SWIFT_MIN_LR: {{ .minLr | quote }}
A4_SWIFT_WARMUP: {{ .warmup | quote }}
A4_SWIFT_SAVE: {{ .save | quote }}
A4_SWIFT_SAVE_INTERVAL: {{ int .saveInterval | quote }}
A4_SWIFT_WORKERS: {{ int .workers | quote }}
A4_SWIFT_DATA_PROCESSES: {{ int .dataProcesses | quote }}
A4_SWIFT_SAVE_OPTIMIZER: {{ .saveOptimizer | quote }}
{{- if eq $.Values.recipe.id "swift-sft" }}
A4_SWIFT_SYSTEM: {{ .system | quote }}
A4_SWIFT_AUTHOR: {{ .author | quote }}
A4_SWIFT_NAME: {{ .name | quote }}
{{- else }}
A4_SWIFT_SPLIT: {{ .splitRatio | quote }}
A4_SWIFT_PACKING: {{ .packing | quote }}
A4_SWIFT_EP: {{ int .ep | quote }}
A4_SWIFT_ETP: {{ int .etp | quote }}
A4_SWIFT_MOE_FUSION: {{ .moeFusion | quote }}
A4_SWIFT_AUX_LOSS: {{ .auxLoss | quote }}
A4_SWIFT_EVAL_INTERVAL: {{ int .evalInterval | quote }}
A4_SWIFT_OFFLOAD: {{ .offload | quote }}
A4_SWIFT_OFFLOAD_SHARE: {{ .offloadShare | quote }}
A4_SWIFT_ATTENTION: {{ .attention | quote }}
A4_SWIFT_BETA: {{ .beta | quote }}
A4_SWIFT_LOSS: {{ .loss | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Settings that were once passed by hand, or belong to other machines. */ -}}
{{- define "a4.ncclPreset" -}}
{{- if eq .Values.network.nccl.preset "explicit" -}}
NCCL_CROSS_NIC: "0"
NCCL_NET_GDR_LEVEL: PIX
NCCL_P2P_NET_CHUNKSIZE: "131072"
NCCL_NVLS_CHUNKSIZE: "524288"
NCCL_IB_ADAPTIVE_ROUTING: "1"
NCCL_IB_QPS_PER_CONNECTION: "4"
NCCL_IB_TC: "52"
NCCL_IB_FIFO_TC: "84"
NCCL_SHIMNET_SHIM_LAYERS: UNUSED
NCCL_MIN_NCHANNELS: "32"
NCCL_TUNER_PLUGIN: none
{{- else if eq .Values.network.nccl.preset "infiniband" -}}
NCCL_IB_DISABLE: "0"
NCCL_IB_HCA: mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4
NCCL_IB_GID_INDEX: "3"
NCCL_IB_TC: "136"
NCCL_IB_QPS_PER_CONNECTION: "4"
NCCL_IB_RETRY_CNT: "7"
NCCL_IB_TIMEOUT: "22"
NCCL_IB_SL: "0"
{{- end -}}
{{- end -}}
