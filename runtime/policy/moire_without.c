/* SPDX-License-Identifier: Apache-2.0
 * moire_without.c - `moire` less one part each; for the ablation table, not for service. */
#include "runtime/policy/moire.h"

static const struct mo_policy without[] = {
    {.name = "moire-no-fit",
     .description = "moire, never setting a query aside that may still make it",
     .options = &(const struct mo_moire_parts){.no_fit = true},
     .state_bytes = sizeof(struct mo_moire_state),
     .dispatch = mo_moire_dispatch},
    {.name = "moire-no-balance",
     .description = "moire, every miss counting the same",
     .options = &(const struct mo_moire_parts){.no_balance = true},
     .state_bytes = sizeof(struct mo_moire_state),
     .dispatch = mo_moire_dispatch},
    {.name = "moire-no-reserve",
     .description = "moire, keeping no room for tighter targets to come",
     .options = &(const struct mo_moire_parts){.no_reserve = true},
     .state_bytes = sizeof(struct mo_moire_state),
     .dispatch = mo_moire_dispatch},
    {.name = "moire-no-share",
     .description = "moire, cores that nobody needs stay idle",
     .options = &(const struct mo_moire_parts){.no_share = true},
     .state_bytes = sizeof(struct mo_moire_state),
     .dispatch = mo_moire_dispatch},
    {.name = "moire-no-meet",
     .description = "moire, taking the cores there are",
     .options = &(const struct mo_moire_parts){.no_meet = true},
     .state_bytes = sizeof(struct mo_moire_state),
     .dispatch = mo_moire_dispatch},
    {.name = "moire-no-brief",
     .description = "moire, blocks as long as the bound allows",
     .options = &(const struct mo_moire_parts){.no_brief = true},
     .state_bytes = sizeof(struct mo_moire_state),
     .dispatch = mo_moire_dispatch},
    {.name = "moire-no-room",
     .description = "moire, what is set aside taking any cores that are left",
     .options = &(const struct mo_moire_parts){.no_room = true},
     .state_bytes = sizeof(struct mo_moire_state),
     .dispatch = mo_moire_dispatch},
    {.name = "moire-no-quick",
     .description = "moire, what is set aside holding cores for any time",
     .options = &(const struct mo_moire_parts){.no_quick = true},
     .state_bytes = sizeof(struct mo_moire_state),
     .dispatch = mo_moire_dispatch},
    {.name = "moire-no-versions",
     .description = "moire, every layer in its fastest version",
     .options = &(const struct mo_moire_parts){.no_versions = true},
     .state_bytes = sizeof(struct mo_moire_state),
     .dispatch = mo_moire_dispatch},
};

const struct mo_policy *const *mo_policy_ablations(void) {
    static const struct mo_policy *const list[] = {&without[0], &without[1], &without[2], &without[3],
                                                   &without[4], &without[5], &without[6], &without[7],
                                                   &without[8], NULL};
    return list;
}
