{{- define "a4.podAnnotations" -}}
kubectl.kubernetes.io/default-container: workload
{{- if and (include "a4.queued" .) (ne .Values.topology.request "none") }}
kueue.x-k8s.io/podset-{{ .Values.topology.request }}-topology: {{ .Values.topology.level | quote }}
{{- end }}
{{- if eq (include "a4.cards" .) "annotation" }}
networking.gke.io/default-interface: eth0
networking.gke.io/interfaces: {{ include "a4.interfaces" . | quote }}
{{- end }}
{{- if .Values.storage.gcs }}
gke-gcsfuse/volumes: "true"
{{- /* Without a request the driver asks for the whole limit. */}}
{{- range $name, $amount := .Values.storage.sidecar }}
gke-gcsfuse/{{ $name }}: {{ $amount | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* How the pods ask for the RDMA cards of their nodes: by annotation or claim, empty: not. A node gives each card once,
so a pod that takes only part of a node leaves them alone: NVLink joins its GPUs. */ -}}
{{- define "a4.cards" -}}
{{- if and (not .Values.network.hostNetwork) (ge (int .Values.gpus) 8) -}}
{{- if .Values.network.dranet -}}claim{{- else if .Values.network.interfaces -}}annotation{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What each container asks for and may use; only the workload has GPUs and cards. */ -}}
{{- define "a4.amounts" -}}
{{- range $kind := list "requests" "limits" }}
{{- $amounts := dict }}
{{- range $name, $amount := get $.top.Values $kind }}{{- $_ := set $amounts $name ($amount | toString) }}{{- end }}
{{- if and $.workload (eq $kind "limits") }}
{{- if $.top.Values.gpus }}{{- $_ := set $amounts "nvidia.com/gpu" (include "a4.gpusPerNode" $.top | int) }}{{- end }}
{{- range $name, $amount := $.top.Values.resources }}{{- $_ := set $amounts $name ($amount | toString) }}{{- end }}
{{- end }}
{{- if $amounts }}
{{ $kind }}:
  {{- toYaml $amounts | nindent 2 }}
{{- end }}
{{- end }}
{{- if and $.workload (eq (include "a4.cards" $.top) "claim") }}
claims:
- name: rdma
{{- end }}
{{- end -}}

{{- /* Whether the pods take part of a node without its own network, and so have no RDMA, empty: no. */ -}}
{{- define "a4.small" -}}
{{- if and (lt (int .Values.gpus) 8) (not .Values.network.hostNetwork) -}}true{{- end -}}
{{- end -}}

{{- /* eth0, and eth1 where ten names are given, carry TCP; eth2..eth9 are one RDMA card each. */ -}}
{{- define "a4.interfaces" -}}
{{- $names := .Values.network.subnetworks | default (list "default" "rdma-0" "rdma-1" "rdma-2" "rdma-3" "rdma-4" "rdma-5" "rdma-6" "rdma-7") -}}
{{- $skipped := sub 10 (len $names) -}}
{{- $interfaces := list -}}
{{- range $index, $name := $names -}}
{{- $interfaces = append $interfaces (dict "interfaceName" (printf "eth%d" (ternary 0 (add $index $skipped) (eq $index 0))) "network" $name) -}}
{{- end -}}
{{- toJson $interfaces -}}
{{- end -}}

{{- /* Whether the pods have a second interface for TCP, empty: no. */ -}}
{{- define "a4.eth1" -}}
{{- if or .Values.network.hostNetwork (and (eq (include "a4.cards" .) "annotation") (eq (len .Values.network.subnetworks) 10)) -}}true{{- end -}}
{{- end -}}

{{- /* targetNodes and avoidNodes are terms of one expression: both hold. */ -}}
{{- define "a4.affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      {{- with .Values.placement.targetNodes }}
      - key: kubernetes.io/hostname
        operator: In
        values:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.placement.avoidNodes }}
      - key: kubernetes.io/hostname
        operator: NotIn
        values:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{- define "a4.volumes" -}}
- name: launchers
  configMap:
    name: {{ .Release.Name }}-launchers
    defaultMode: 0755
- name: ssh
  secret:
    secretName: {{ .Release.Name }}-ssh
    defaultMode: 0400
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ .Values.storage.shm }}
{{- if .Values.network.gib.enabled }}
- name: gib
  emptyDir: {}
- name: third-party
  emptyDir: {}
{{- end }}
{{- include "a4.storageVolumes" . }}
{{- end -}}

{{- define "a4.volumeMounts" -}}
- name: launchers
  mountPath: /a4/launchers
  readOnly: true
- name: ssh
  mountPath: /a4/ssh
  readOnly: true
- name: shm
  mountPath: /dev/shm
{{- if .Values.network.gib.enabled }}
- name: gib
  mountPath: /usr/local/gib
- name: third-party
  mountPath: /third_party
{{- end }}
{{- include "a4.storageMounts" . }}
{{- end -}}
