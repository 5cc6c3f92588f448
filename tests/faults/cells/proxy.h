/* Faults of all connections of this process, from the call on. */
#ifndef TESTS_FAULTS_CELLS_PROXY_H
#define TESTS_FAULTS_CELLS_PROXY_H

void cell_proxy_mute(void);      /* sent messages are lost */
void cell_proxy_half_open(void); /* received ones also; no connection ends */
/* Refuses half of the offered messages, in another order each time, and skips
 * some polls. */
void cell_proxy_busy(void);
void cell_proxy_cut(void); /* one connection ends */

#endif
