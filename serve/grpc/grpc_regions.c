/* SPDX-License-Identifier: Apache-2.0
 * grpc_regions.c - shared memory of clients is registered; see grpc.h and regions.h. */
#include "inference.pb-c.h"
#include "serve/grpc/grpc.h"
#include "serve/protocol/fault.h"
#include "serve/query/regions.h"

static struct ms_regions *regions_of(const struct ms_item *item) {
    return item->call->connection->door->repository->options.regions;
}

int ms_grpc_regions(struct ms_item *item, moire_error *err) {
    const Inference__SystemSharedMemoryStatusRequest *r = (const void *)item->request;
    json_t *list = NULL, *by_name = json_object();
    const int rc = ms_regions_status(regions_of(item), r->name, &list, err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *region = json_array_get(list, i);
        json_object_set(by_name, json_string_value(json_object_get(region, "name")), region);
    }
    json_decref(list);
    if (!rc) return ms_grpc_answer(item, json_pack("{s:o}", "regions", by_name), err);
    json_decref(by_name);
    return rc;
}

int ms_grpc_register(struct ms_item *item, moire_error *err) {
    const Inference__SystemSharedMemoryRegisterRequest *r = (const void *)item->request;
    if (r->offset > INT64_MAX || r->byte_size > INT64_MAX)
        return ms_fail(err, MOIRE_EINVAL, "region '%.100s': offset and byte_size are no range", r->name);
    const int rc = ms_regions_register(regions_of(item), r->name, r->key, (int64_t)r->offset,
                                       (int64_t)r->byte_size, err);
    return rc ? rc : ms_grpc_answer(item, json_object(), err);
}

int ms_grpc_unregister(struct ms_item *item, moire_error *err) {
    const Inference__SystemSharedMemoryUnregisterRequest *r = (const void *)item->request;
    ms_regions_unregister(regions_of(item), r->name);
    return ms_grpc_answer(item, json_object(), err);
}

/* --- memory of GPUs: none is ever registered --- */
int ms_grpc_no_regions(struct ms_item *item, moire_error *err) {
    const Inference__CudaSharedMemoryStatusRequest *r = (const void *)item->request;
    return *r->name ? ms_fail(err, MOIRE_ESTALE, "there is no CUDA shared memory region '%.100s'", r->name)
                    : ms_grpc_answer(item, json_object(), err);
}
int ms_grpc_no_register(struct ms_item *item, moire_error *err) {
    (void)item;
    return ms_fail(err, MOIRE_EUNSUPPORTED, "CUDA shared memory is not served; system shared memory is");
}
int ms_grpc_no_unregister(struct ms_item *item, moire_error *err) {
    return ms_grpc_answer(item, json_object(), err);
}
