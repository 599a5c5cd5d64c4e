{{- /* Volumes that exist only when they were asked for, and where each is mounted. */ -}}
{{- define "a4.bucketVolume" -}}gcs-{{ . | replace "." "-" | replace "_" "-" | trunc 50 | trimSuffix "-" }}-{{ . | sha256sum | trunc 6 }}{{- end -}}
{{- define "a4.nodeVolume" -}}node-{{ . | sha256sum | trunc 10 }}{{- end -}}
{{- define "a4.claimVolume" -}}pvc-{{ . | replace "." "-" | trunc 59 | trimSuffix "-" }}{{- end -}}

{{- /* Claims of the shared file systems, made or found: claim -> path. */ -}}
{{- define "a4.claims" -}}
{{- $claims := dict -}}
{{- range $claim, $path := .Values.storage.pvc -}}{{- $_ := set $claims $claim $path -}}{{- end -}}
{{- if .Values.storage.nfs.claim -}}{{- $_ := set $claims .Values.storage.nfs.claim .Values.storage.nfs.path -}}{{- end -}}
{{- if .Values.storage.lustre.claim -}}{{- $_ := set $claims .Values.storage.lustre.claim .Values.storage.lustre.path -}}{{- end -}}
{{- toJson $claims -}}
{{- end -}}

{{- define "a4.storageVolumes" -}}
{{- if .Values.storage.ssd }}
- name: ssd
  hostPath:
    path: /mnt/stateful_partition/kube-ephemeral-ssd
    type: Directory
{{- end }}
{{- range $claim, $path := include "a4.claims" . | fromJson }}
- name: {{ include "a4.claimVolume" $claim }}
  persistentVolumeClaim:
    claimName: {{ $claim | quote }}
{{- end }}
{{- range $bucket, $mount := .Values.storage.gcs }}
- name: {{ include "a4.bucketVolume" $bucket }}
  csi:
    driver: gcsfuse.csi.storage.gke.io
    volumeAttributes:
      bucketName: {{ $bucket | quote }}
      {{- with splitn ":" 2 $mount }}
      {{- if ._1 }}
      mountOptions: {{ ._1 | quote }}
      {{- end }}
      {{- end }}
      {{- if $.Values.network.hostNetwork }}
      hostNetworkPodKSA: "true"
      {{- end }}
{{- end }}
{{- range $folder, $path := .Values.storage.host }}
- name: {{ include "a4.nodeVolume" $folder }}
  hostPath:
    path: {{ $folder | quote }}
{{- end }}
{{- end -}}

{{- define "a4.storageMounts" -}}
{{- with .Values.storage.ssd }}
- name: ssd
  mountPath: {{ . | quote }}
{{- end }}
{{- range $claim, $path := include "a4.claims" . | fromJson }}
- name: {{ include "a4.claimVolume" $claim }}
  mountPath: {{ $path | quote }}
{{- end }}
{{- range $bucket, $mount := .Values.storage.gcs }}
- name: {{ include "a4.bucketVolume" $bucket }}
  mountPath: {{ (splitn ":" 2 $mount)._0 | quote }}
{{- end }}
{{- range $folder, $path := .Values.storage.host }}
- name: {{ include "a4.nodeVolume" $folder }}
  mountPath: {{ $path | quote }}
{{- end }}
{{- end -}}

{{- /* A volume and its claim, unless the claim is there: others may use it, so neither goes with the release. */ -}}
{{- define "a4.sharedVolume" -}}
{{- $name := printf "a4-%s-%s" .top.Release.Namespace .claim -}}
{{- if not (lookup "v1" "PersistentVolumeClaim" .top.Release.Namespace .claim) }}
{{- if not (lookup "v1" "PersistentVolume" "" $name) }}
apiVersion: v1
kind: PersistentVolume
metadata:
  name: {{ $name | quote }}
  labels:
    {{- include "a4.labels" .top | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
spec:
  capacity:
    storage: {{ .size }}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef:
    namespace: {{ .top.Release.Namespace | quote }}
    name: {{ .claim | quote }}
  {{- .source | nindent 2 }}
---
{{- end }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .claim | quote }}
  namespace: {{ .top.Release.Namespace | quote }}
  labels:
    {{- include "a4.labels" .top | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: {{ $name | quote }}
  resources:
    requests:
      storage: {{ .size }}
{{- end }}
{{- end -}}

{{- define "a4.nfsSource" -}}
{{- with .Values.storage.nfs -}}
{{- if and .instance .location -}}
csi:
  driver: filestore.csi.storage.gke.io
  volumeHandle: {{ printf "modeInstance/%s/%s/%s" .location .instance .share | quote }}
  volumeAttributes:
    ip: {{ .server | quote }}
    volume: {{ .share | quote }}
{{- else -}}
nfs:
  server: {{ .server | quote }}
  path: {{ printf "/%s" (trimPrefix "/" .share) | quote }}
mountOptions: [nfsvers=4.1, rsize=1048576, wsize=1048576, hard, timeo=600, retrans=2, noresvport]
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "a4.lustreSource" -}}
{{- with .Values.storage.lustre -}}
csi:
  driver: lustre.csi.storage.gke.io
  volumeHandle: {{ printf "%s/%s/%s" .project .location .instance | quote }}
  volumeAttributes:
    ip: {{ .server | quote }}
    filesystem: {{ .filesystem | quote }}
{{- end -}}
{{- end -}}
