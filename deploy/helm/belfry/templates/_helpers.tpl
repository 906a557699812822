{{- define "belfry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the release has the name of the chart only once. 52 characters leave room for "-headless" and "-migrate". */}}
{{- define "belfry.fullname" -}}
{{- $name := include "belfry.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels of the pods of the servers. They never change. */}}
{{- define "belfry.selector" -}}
app.kubernetes.io/name: {{ include "belfry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "belfry.labels" -}}
{{ include "belfry.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: belfry
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "belfry.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "belfry.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "belfry.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{/* The security context of the pods. 65532 is the user of the image. */}}
{{- define "belfry.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "belfry.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end -}}

{{/* The port of probes and metrics. */}}
{{- define "belfry.internalPort" -}}
{{- if .Values.tls.existingSecret -}}internal{{- else -}}http{{- end -}}
{{- end -}}

{{/* The variables with the DSN. secret, url and listen say where they come from. */}}
{{- define "belfry.databaseEnv" -}}
- name: BELFRY_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .url }}
{{- if .listen }}
- name: BELFRY_DATABASE_LISTEN_URL
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .listen }}
{{- end }}
{{- end -}}
