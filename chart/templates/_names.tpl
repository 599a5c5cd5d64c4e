{{- /* What one GPU count means: pods, and GPUs in each. */ -}}
{{- define "a4.nodes" -}}{{ max 1 (div (int .Values.gpus) 8) }}{{- end -}}
{{- define "a4.gpusPerNode" -}}{{ min 8 (int .Values.gpus) }}{{- end -}}

{{- /* Whether Kueue is asked, empty: no. A queue that covers GPUs never admits pods that take none. */ -}}
{{- define "a4.queued" -}}{{- if and .Values.queue .Values.gpus -}}true{{- end -}}{{- end -}}

{{- define "a4.domain" -}}{{ .Release.Name }}.{{ .Release.Namespace }}.svc.cluster.local{{- end -}}
{{- define "a4.rank0" -}}{{ .Release.Name }}-workload-0-0.{{ include "a4.domain" . }}{{- end -}}

{{- /* On every object, so that what a release left behind is found by label. */ -}}
{{- define "a4.labels" -}}
app.kubernetes.io/name: a4
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/component: workload
a4.console/recipe: {{ .Values.recipe.id | quote }}
{{- end -}}

{{- /* Whose it is, in the form of a label: of an e-mail address what stands before the @. */ -}}
{{- define "a4.owner" -}}
{{- regexReplaceAll "[^A-Za-z0-9._-]+" (first (splitList "@" .Values.owner)) "-" | trunc 63 | trimAll "-._" -}}
{{- end -}}

{{- define "a4.checks" -}}
{{- if gt (len .Release.Name) 43 -}}
{{- fail (printf "the release name has %d characters; 43 is the most, or the pods' names grow past 63" (len .Release.Name)) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .Release.Name) -}}
{{- fail "the release name must begin with a letter and hold only lower-case letters, digits and dashes" -}}
{{- end -}}
{{- if not .Values.launchers -}}
{{- fail "launchers is empty: the scripts of launchers/ must be given as values (--set-file launchers.run\\.sh=launchers/run.sh ...)" -}}
{{- end -}}
{{- end -}}
