/* Faults within a rank's process, started on a second thread. */
#ifndef TESTS_FAULTS_CELLS_SUFFER_H
#define TESTS_FAULTS_CELLS_SUFFER_H

void cell_suffer_reset(void);
void cell_suffer_reset_one(void);
void cell_suffer_damage(void);
void cell_suffer_no_descriptors(void);
void cell_suffer_no_memory(void);
void cell_suffer_no_shared_memory(void);
void cell_suffer_signals(void);
void cell_suffer_clock(void);

#endif
