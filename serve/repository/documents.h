/* SPDX-License-Identifier: Apache-2.0
 * documents.h - what the server tells of itself and of its models, as the JSON of the Open Inference
 * Protocol. HTTP sends it as it is; gRPC makes messages of it (serve/grpc/messages.h), whose fields have
 * its names.
 *
 * version NULL: the newest.  Documents are the caller's; one may be NULL where there was no memory. */
#ifndef MS_DOCUMENTS_H
#define MS_DOCUMENTS_H
#include "serve/repository/repository.h"

json_t *ms_document_server(const struct ms_repository *repository);
/* Returns: MOIRE_OK; MOIRE_ESTALE: there is no such model; MOIRE_EINVAL: it is not ready. */
int ms_document_model(struct ms_repository *repository, const char *name, const char *version, json_t **out,
                      moire_error *err);
int ms_document_config(struct ms_repository *repository, const char *name, const char *version, json_t **out,
                       moire_error *err);
/* Of all models where name is "".  MOIRE_ESTALE. */
int ms_document_stats(struct ms_repository *repository, const char *name, const char *version, json_t **out,
                      moire_error *err);
/* A list: what is loaded and, unless only what is `ready` is asked for, what lies in the folder. */
json_t *ms_document_index(struct ms_repository *repository, bool ready);
#endif
