{{- define "bayplan.name" -}}
{{ .Release.Name }}-scheduler
{{- end -}}

{{- define "bayplan.schedulerName" -}}
{{- if eq .Values.mode "default" -}}
default-scheduler
{{- else -}}
{{ .Values.schedulerName }}
{{- end -}}
{{- end -}}

{{- define "bayplan.lease" -}}
{{- if eq .Values.mode "default" -}}
kube-scheduler
{{- else -}}
{{ include "bayplan.name" . }}
{{- end -}}
{{- end -}}
