/* Faults of the network. The rank at fault is on the other host. */
#ifndef TESTS_FAULTS_CELLS_NETWORK_H
#define TESTS_FAULTS_CELLS_NETWORK_H

#include "cell.h"

void cell_strike_blackhole(cell_run *run);
void cell_strike_loss_from_victim(cell_run *run);
void cell_strike_loss_to_victim(cell_run *run);
void cell_strike_half_open(cell_run *run);
void cell_heal_network(cell_run *run);

#endif
