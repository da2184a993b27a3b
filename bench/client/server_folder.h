/* SPDX-License-Identifier: Apache-2.0
 * server_folder.h - what a model server finds in its folder: for moire a model repository, for others
 * spec.json (bench/peers/README.md). */
#ifndef MO_SERVER_FOLDER_H
#define MO_SERVER_FOLDER_H
#include "bench/client/server_process.h"

#define MO_SERVER_MODELS "models" /* moire's repository, in the folder */

/* Writes it into server->folder, which is there and empty.  Returns: MOIRE_OK; MOIRE_EIO. */
int mo_server_folder_write(const struct mo_bench_job *job, const struct mo_server_process *server,
                           moire_error *err);
/* Tenant i as the server knows it. */
void mo_server_model_name(int tenant, char *out, size_t n);
#endif
