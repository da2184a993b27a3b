/* SPDX-License-Identifier: Apache-2.0
 * query_regions.c - tensors of a query that lie in shared memory of its client: inputs are copied from there
 * before the query is submitted, outputs to there when it was answered; see infer_query.h and regions.h. */
#include <stdlib.h>
#include "serve/protocol/fault.h"
#include "serve/query/query_impl.h"

static struct ms_regions *regions_of(const struct ms_query *q) {
    return q->model->repository->options.regions;
}

static int load(struct ms_query *q, struct ms_input *in) {
    struct ms_region *region;
    int rc = ms_regions_take(regions_of(q), in->place.region, in->place.offset, in->place.bytes, &region,
                             &q->error);
    if (rc) return rc;
    if ((size_t)in->place.bytes != in->tensor.bytes)
        rc = ms_fail(&q->error, MOIRE_EINVAL,
                     "input '%.100s': \"shared_memory_byte_size\" is %lld, its shape and type take %zu",
                     in->name, (long long)in->place.bytes, in->tensor.bytes);
    if (!rc && !(in->owned = malloc(in->tensor.bytes + 1)))
        rc = ms_fail(&q->error, MOIRE_ENOMEM, "no memory for input '%.100s'", in->name);
    in->tensor.data = in->owned;
    if (!rc) rc = ms_region_read(region, in->place.offset, in->owned, in->tensor.bytes, &q->error);
    ms_regions_give(regions_of(q), region);
    return rc;
}

int ms_query_load_regions(struct ms_query *q) {
    int rc = MOIRE_OK;
    for (int i = 0; i < q->request.n_inputs && !rc; i++)
        if (q->request.input[i].place.region) rc = load(q, &q->request.input[i]);
    return rc;
}

int ms_query_take_regions(struct ms_query *q) {
    int rc = MOIRE_OK;
    for (int i = 0; i < q->request.n_outputs && !rc; i++) {
        const struct ms_place *p = &q->request.output[i].place;
        if (p->region)
            rc = ms_regions_take(regions_of(q), p->region, p->offset, p->bytes, &q->region[i], &q->error);
    }
    return rc;
}

void ms_query_store_regions(struct ms_query *q) {
    for (int i = 0; i < q->request.n_outputs && !q->error.code; i++) {
        const struct ms_place *p = &q->request.output[i].place;
        struct ms_output *out = &q->output[i];
        if (!p->region) continue;
        if (out->tensor.bytes > (size_t)p->bytes)
            ms_fail(&q->error, MOIRE_EINVAL, "output '%.100s' has %zu bytes, its shared memory %lld",
                    out->name, out->tensor.bytes, (long long)p->bytes);
        else
            ms_region_write(q->region[i], p->offset, out->tensor.data, out->tensor.bytes, &q->error);
        out->is_elsewhere = true;
    }
}

void ms_query_give_regions(struct ms_query *q) {
    for (int i = 0; i < MS_PORTS; i++)
        if (q->region[i]) ms_regions_give(regions_of(q), q->region[i]);
}
