{{/* The pod of a server, for the Deployment and the StatefulSet. */}}
{{- define "belfry.pod" -}}
metadata:
  labels:
    {{- include "belfry.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .Values.config .Values.podAnnotations }}
  annotations:
    {{- if .Values.config }}
    checksum/config: {{ .Values.config | toYaml | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ include "belfry.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ add .Values.shutdown.drainDelay .Values.shutdown.timeout .Values.shutdown.reserve }}
  securityContext:
    {{- include "belfry.podSecurity" . | nindent 4 }}
  containers:
    - name: belfry
      image: {{ include "belfry.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
      env:
        {{- include "belfry.serverEnv" . | nindent 8 }}
      {{- with .Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: http
          containerPort: 6632
        {{- if .Values.tls.existingSecret }}
        - name: internal
          containerPort: 6633
        {{- end }}
      # The server answers /livez from its start, also while it waits for the database or migrates.
      livenessProbe:
        httpGet:
          path: /livez
          port: {{ include "belfry.internalPort" . }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      # /readyz itself ignores a single failed ping of the database.
      readinessProbe:
        httpGet:
          path: /readyz
          port: {{ include "belfry.internalPort" . }}
        periodSeconds: 2
        timeoutSeconds: 3
        failureThreshold: 1
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- include "belfry.containerSecurity" . | nindent 8 }}
      {{- if or .Values.config .Values.tls.existingSecret .Values.spool.enabled .Values.extraVolumeMounts }}
      volumeMounts:
        {{- if .Values.config }}
        - name: config
          mountPath: /etc/belfry
          readOnly: true
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - name: tls
          mountPath: /etc/belfry-tls
          readOnly: true
        {{- end }}
        {{- if .Values.spool.enabled }}
        - name: spool
          mountPath: /var/lib/belfry
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
  {{- if or .Values.config .Values.tls.existingSecret .Values.extraVolumes }}
  volumes:
    {{- if .Values.config }}
    - name: config
      configMap:
        name: {{ include "belfry.fullname" . }}
    {{- end }}
    {{- if .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ .Values.tls.existingSecret }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "belfry.selector" $ | nindent 10 }}
    {{- end }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "belfry.serverEnv" -}}
{{- $db := .Values.database -}}
{{ include "belfry.databaseEnv" (dict "secret" $db.existingSecret "url" $db.urlKey "listen" $db.listenURLKey) }}
{{- if eq .Values.migration.by "job" }}
- name: BELFRY_DATABASE_MIGRATE_ON_START
  value: "false"
{{- end }}
- name: BELFRY_HTTP_ADDR
  value: ":6632"
{{- if .Values.tls.existingSecret }}
- name: BELFRY_HTTP_INTERNAL_ADDR
  value: ":6633"
- name: BELFRY_HTTP_TLS_CERT_FILE
  value: /etc/belfry-tls/tls.crt
- name: BELFRY_HTTP_TLS_KEY_FILE
  value: /etc/belfry-tls/tls.key
{{- end }}
- name: BELFRY_HTTP_DRAIN_DELAY
  value: {{ printf "%ds" (int .Values.shutdown.drainDelay) }}
- name: BELFRY_HTTP_SHUTDOWN_TIMEOUT
  value: {{ printf "%ds" (int .Values.shutdown.timeout) }}
- name: BELFRY_LOG_FORMAT
  value: json
{{- if .Values.config }}
- name: BELFRY_CONFIG
  value: /etc/belfry/belfry.yaml
{{- end }}
{{- if .Values.otel }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- if not (hasKey .Values.otel "OTEL_RESOURCE_ATTRIBUTES") }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: k8s.namespace.name=$(POD_NAMESPACE),k8s.pod.name=$(POD_NAME)
{{- end }}
{{- range $name, $value := .Values.otel }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
