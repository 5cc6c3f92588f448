/* The program of each rank of a job. */
#ifndef TESTS_TRANSPORT_IBV_IBV_RANK_H
#define TESTS_TRANSPORT_IBV_IBV_RANK_H

#include "transport_ibv/ibv_job.h"

/* `timeout_ns`: of operations; 0: a short one. */
void ibv_rank_run(int rank, int size, gloo_store *store, int64_t timeout_ns,
                  ibv_report *report);

#endif
