/* SPDX-License-Identifier: Apache-2.0
 * scale_kserve.c - manifests for KServe on Kubernetes: a ServingRuntime, and for each model its settings, an
 * InferenceService, a scaler and a disruption budget; see scale.h.
 *
 * A pod has one model, for that is how KServe counts.  Its cores are whole and its requests are its limits,
 * so that the kubelet's static policy gives it cores of its own, to which moire pins its workers.  A plan has
 * cores of nodes, not of models: of each node a model gets the share of the cores that it has of the queries,
 * and the pod the least of these. */
#include <ctype.h>
#include <string.h>
#include "tools/moire/scale/scale.h"

/* A Kubernetes name has 63 letters at most, to which KServe adds "-predictor". */
enum { NAME = 51, PORT = 8080, DRAIN_SECONDS = 5, ANSWER_SECONDS = 30 };

/* --- names ---------------------------------------------------------------------------------------------- */
static int name_of(const struct mo_scale_model *m, char out[NAME], moire_error *err) {
    const bool digit = isdigit((unsigned char)m->name[0]);
    const int n = snprintf(out, NAME, "%s%s", digit ? "m-" : "", m->name);
    if (n >= NAME)
        return mo_fail(err, MOIRE_EFORMAT, "model '%s': a name on Kubernetes has %d letters at most", m->name,
                       NAME - 1);
    for (char *at = out; *at; at++)
        *at = (char)(*at == '.' || *at == '_' ? '-' : tolower((unsigned char)*at));
    if (out[n - 1] == '-')
        return mo_fail(err, MOIRE_EFORMAT, "model '%s': a name on Kubernetes ends with a letter or a digit",
                       m->name);
    return MOIRE_OK;
}

static int check_names(const struct mo_scale_plan *p, moire_error *err) {
    char a[NAME], b[NAME];
    int code = MOIRE_OK;
    for (int i = 0; i < p->n_models && !code; i++) {
        code = name_of(&p->model[i], a, err);
        for (int k = 0; k < i && !code; k++) {
            code = name_of(&p->model[k], b, err);
            if (!code && !strcmp(a, b))
                code = mo_fail(err, MOIRE_EFORMAT, "models '%s' and '%s' are both '%s' on Kubernetes",
                               p->model[k].name, p->model[i].name, a);
        }
    }
    return code;
}

/* What a container's name may have in it. */
static int check_image(const char *image, moire_error *err) {
    const size_t n = strspn(image, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/:@");
    return n && !image[n] && n < 256
               ? MOIRE_OK
               : mo_fail(err, MOIRE_EINVAL, "--image %.100s is no name of an image", image);
}

/* --- resources ------------------------------------------------------------------------------------------ */
struct pod {
    int64_t cores, memory_mb;
};

static struct pod pod_of(const struct mo_scale_plan *p, int model) {
    struct pod least = {INT64_MAX, INT64_MAX};
    for (int i = 0; i < p->n_nodes; i++) {
        const struct mo_scale_node *n = &p->node[i];
        const struct mo_scale_share *own = mo_scale_share_of(n, model);
        double all = 0;
        for (int k = 0; k < n->n_shares; k++)
            all += n->share[k].qps;
        if (!own) continue;
        const double share = all > 0 ? own->qps / all : 1.0 / n->n_shares;
        const int64_t cores = (int64_t)(share * (double)n->cores),
                      memory = n->memory_mb * 8 / 10 / n->n_shares;
        if (cores < least.cores) least.cores = cores;
        if (memory < least.memory_mb) least.memory_mb = memory;
    }
    if (least.cores < 1) least.cores = 1;
    if (least.memory_mb < 64) least.memory_mb = 64;
    return least;
}

/* --- runtime.yaml --------------------------------------------------------------------------------------- */
static int write_runtime(const struct mo_scale_options *o, struct mo_scale_folder *folder, moire_error *err) {
    FILE *to = mo_scale_file(folder);
    if (to)
        fprintf(
            to,
            "# Written by `moire scale kserve`; docs/scaling-out.md explains it.\n"
            "# Of the kubelet it needs cpuManagerPolicy: static, and on machines of several sockets\n"
            "# topologyManagerPolicy: single-numa-node: moire pins workers to the cores that it is given.\n"
            "apiVersion: serving.kserve.io/v1alpha1\n"
            "kind: ServingRuntime\n"
            "metadata:\n"
            "  name: moire\n"
            "spec:\n"
            "  annotations:\n"
            "    prometheus.io/scrape: \"true\"\n"
            "    prometheus.io/port: \"%d\"\n"
            "    prometheus.io/path: /metrics\n"
            "  supportedModelFormats:\n"
            "    - name: onnx\n"
            "      version: \"1\"\n"
            "      autoSelect: true\n"
            "  protocolVersions:\n"
            "    - v2\n"
            "  multiModel: false\n"
            "  containers:\n"
            "    - name: kserve-container\n"
            "      image: \"%s\"\n"
            "      args: [serve, --config, /etc/moire/server.json, --host, 0.0.0.0, --insecure, --http-port, "
            "\"%d\",\n"
            "             --grpc-port, \"-1\", --metrics-port, \"-1\", --drain-seconds, \"%d\", --json-log]\n"
            "      ports:\n"
            "        - containerPort: %d\n"
            "          protocol: TCP\n"
            "      readinessProbe:\n"
            "        httpGet: {path: /v2/health/ready, port: %d}\n"
            "        periodSeconds: 1\n"
            "        failureThreshold: 2\n"
            "      livenessProbe:\n"
            "        httpGet: {path: /v2/health/live, port: %d}\n"
            "        periodSeconds: 10\n"
            "        failureThreshold: 3\n"
            "      securityContext:\n"
            "        allowPrivilegeEscalation: false\n"
            "        capabilities: {drop: [ALL]}\n",
            PORT, o->image, PORT, DRAIN_SECONDS, PORT, PORT, PORT);
    return mo_scale_file_end(folder, "runtime.yaml", err);
}

/* --- MODEL.yaml ----------------------------------------------------------------------------------------- */
static void put_settings(FILE *to, const struct mo_scale_model *m, const char *name) {
    fprintf(to,
            "# Written by `moire scale kserve`; docs/scaling-out.md explains it.\n"
            "# The volume claim `models` has %s as %s/model.onnx.\n"
            "apiVersion: v1\n"
            "kind: ConfigMap\n"
            "metadata:\n"
            "  name: %s-moire\n"
            "data:\n"
            "  server.json: |\n"
            "    {\"models\": [{\"name\": \"%s\", \"path\": \"/mnt/models/model.onnx\"",
            m->file, name, name, m->name);
    if (m->qos_ms > 0) fprintf(to, ", \"qos_ms\": %g", m->qos_ms);
    fprintf(to, "}]}\n");
}

static void put_service(FILE *to, const struct mo_scale_model *m, const char *name, struct pod pod) {
    fprintf(to,
            "---\n"
            "apiVersion: serving.kserve.io/v1beta1\n"
            "kind: InferenceService\n"
            "metadata:\n"
            "  name: %s\n"
            "  annotations:\n"
            "    serving.kserve.io/deploymentMode: RawDeployment\n"
            "    serving.kserve.io/autoscalerClass: external\n"
            "spec:\n"
            "  predictor:\n"
            "    minReplicas: %lld\n"
            "    terminationGracePeriodSeconds: %d\n"
            "    topologySpreadConstraints:\n"
            "      - maxSkew: 1\n"
            "        topologyKey: kubernetes.io/hostname\n"
            "        whenUnsatisfiable: ScheduleAnyway\n"
            "        labelSelector:\n"
            "          matchLabels: {serving.kserve.io/inferenceservice: %s}\n"
            "    volumes:\n"
            "      - name: moire-settings\n"
            "        configMap: {name: %s-moire}\n",
            name, (long long)m->replicas, DRAIN_SECONDS + ANSWER_SECONDS + 10, name, name);
    fprintf(to,
            "    model:\n"
            "      modelFormat: {name: onnx}\n"
            "      runtime: moire\n"
            "      protocolVersion: v2\n"
            "      storageUri: pvc://models/%s\n"
            "      volumeMounts:\n"
            "        - {name: moire-settings, mountPath: /etc/moire, readOnly: true}\n"
            "      # whole cores, and requests that are limits: class Guaranteed, cores of its own\n"
            "      resources:\n"
            "        requests: {cpu: \"%lld\", memory: %lldMi}\n"
            "        limits: {cpu: \"%lld\", memory: %lldMi}\n",
            name, (long long)pod.cores, (long long)pod.memory_mb, (long long)pod.cores,
            (long long)pod.memory_mb);
}

/* Three wishes, of which the largest counts: processor time, queries that wait or run, and the share of the
 * last minute's queries that missed their target. */
static void put_scaler(FILE *to, const struct mo_scale_model *m, const char *name, struct pod pod) {
    fprintf(to,
            "---\n"
            "apiVersion: autoscaling/v2\n"
            "kind: HorizontalPodAutoscaler\n"
            "metadata:\n"
            "  name: %s\n"
            "spec:\n"
            "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s-predictor}\n"
            "  minReplicas: %lld\n"
            "  maxReplicas: %lld\n"
            "  metrics:\n"
            "    - type: Resource\n"
            "      resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}\n"
            "    - type: Pods\n"
            "      pods:\n"
            "        metric: {name: moire_requests_pending}\n"
            "        target: {type: AverageValue, averageValue: \"%lld\"}\n",
            name, name, (long long)m->replicas, (long long)m->replicas * 3, (long long)pod.cores * 2);
    if (m->qos_ms > 0)
        fprintf(to, "    - type: Pods\n"
                    "      pods:\n"
                    "        metric: {name: moire_missed_ratio}\n"
                    "        target: {type: AverageValue, averageValue: 50m}\n");
    fprintf(to, "  behavior:\n"
                "    scaleDown: {stabilizationWindowSeconds: 300}\n");
}

static void put_budget(FILE *to, const char *name) {
    fprintf(to,
            "---\n"
            "apiVersion: policy/v1\n"
            "kind: PodDisruptionBudget\n"
            "metadata:\n"
            "  name: %s\n"
            "spec:\n"
            "  maxUnavailable: 1\n"
            "  selector:\n"
            "    matchLabels: {serving.kserve.io/inferenceservice: %s}\n",
            name, name);
}

static int write_model(const struct mo_scale_plan *p, int i, struct mo_scale_folder *folder,
                       moire_error *err) {
    char name[NAME], file[NAME + 16];
    const struct mo_scale_model *m = &p->model[i];
    const struct pod pod = pod_of(p, i);
    const int code = name_of(m, name, err);
    if (code) return code;
    FILE *to = mo_scale_file(folder);
    if (to) {
        put_settings(to, m, name);
        put_service(to, m, name, pod);
        put_scaler(to, m, name, pod);
        put_budget(to, name);
    }
    snprintf(file, sizeof file, "models/%s.yaml", name);
    return mo_scale_file_end(folder, file, err);
}

/* --- prometheus-adapter.yaml ---------------------------------------------------------------------------- */
static int write_adapter(struct mo_scale_folder *folder, moire_error *err) {
    FILE *to = mo_scale_file(folder);
    if (to)
        fprintf(to, "# Written by `moire scale kserve`: the rules by which prometheus-adapter gives moire's "
                    "metrics to\n"
                    "# the scalers; a part of its configuration.\n"
                    "rules:\n"
                    "  - seriesQuery: 'moire_requests_pending{namespace!=\"\",pod!=\"\"}'\n"
                    "    resources: &resources\n"
                    "      overrides: {namespace: {resource: namespace}, pod: {resource: pod}}\n"
                    "    name: {as: moire_requests_pending}\n"
                    "    metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'\n"
                    "  - seriesQuery: 'moire_attainment_ratio{namespace!=\"\",pod!=\"\"}'\n"
                    "    resources: *resources\n"
                    "    name: {as: moire_missed_ratio}\n"
                    "    metricsQuery: 'max(1 - <<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'\n");
    return mo_scale_file_end(folder, "prometheus-adapter.yaml", err);
}

int mo_scale_kserve(const struct mo_scale_plan *p, const struct mo_scale_options *o,
                    struct mo_scale_folder *folder, moire_error *err) {
    int code = check_image(o->image, err);
    if (!code) code = check_names(p, err);
    if (!code) code = write_runtime(o, folder, err);
    if (!code) code = write_adapter(folder, err);
    for (int i = 0; i < p->n_models && !code; i++)
        code = write_model(p, i, folder, err);
    return code;
}
