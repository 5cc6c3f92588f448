/* From the call on, in this process, for all connections. */
#ifndef TESTS_FAULTS_CELLS_PROXY_H
#define TESTS_FAULTS_CELLS_PROXY_H

void cell_proxy_mute(void);      /* what is sent is lost */
void cell_proxy_half_open(void); /* and what is received; no end is seen */
/* What is offered is refused half of the time, in another order each time, and
 * polls do nothing now and then. */
void cell_proxy_busy(void);
void cell_proxy_cut(void); /* one connection ends here */

#endif
