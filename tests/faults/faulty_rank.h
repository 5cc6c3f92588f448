/* One rank of a job with faults; see faulty_job.h. */
#ifndef TESTS_FAULTS_FAULTY_RANK_H
#define TESTS_FAULTS_FAULTY_RANK_H

#include "faults/faulty_job.h"

/* Runs a rank in a separate process, whose environment gives its rank and
 * size. */
void faulty_rank_run(const faulty_plan *plan, bool faulty,
                     faulty_report *report);

#endif
