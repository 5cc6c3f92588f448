/* Measures for an MPI what `gloo bench start --link` does for gloo_c: one
 * start, by MPI's own launcher. */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tools/own_memory.h"

enum { MET, PASSED, SPLIT, LINKED, POINTS };
static const char *const names[POINTS] = {"met", "passed", "split", "linked"};

/* Returns the time of a clock that all processes of a host share. */
static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double count_descriptors(void) {
  int n = 0;
  DIR *all = opendir("/dev/fd");
  if (all == NULL) return 0;
  for (struct dirent *e = readdir(all); e != NULL; e = readdir(all))
    n += e->d_name[0] != '.';
  closedir(all);
  return n - 1; /* except that of the folder */
}

static void greet_all(int rank, int size) {
  int word = 1, came;
  for (int away = 1; away < size; away++)
    MPI_Sendrecv(&word, 1, MPI_INT, (rank + away) % size, 0, &came, 1, MPI_INT,
                 (rank + size - away) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sets `found`, at rank 0, to the median and the maximum of all ranks. */
static void middle_and_most(double mine, int rank, int size, double found[2]) {
  double *all = rank == 0 ? malloc((size_t)size * sizeof *all) : NULL;
  MPI_Gather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (all == NULL) return;
  qsort(all, (size_t)size, sizeof *all, compare);
  found[0] = all[size / 2];
  found[1] = all[size - 1];
  free(all);
}

int main(int argc, char **argv) {
  double from[POINTS], at[POINTS], memory[POINTS], descriptors[POINTS];
  double before = gli_own_memory_kib();
  int rank, size;
  MPI_Comm group;
  for (int p = 0; p < POINTS; p++) {
    from[p] = now_ms();
    if (p == MET) MPI_Init(&argc, &argv);
    if (p == PASSED) MPI_Barrier(MPI_COMM_WORLD);
    if (p == SPLIT) MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &group);
    if (p == LINKED) greet_all(rank, size);
    at[p] = now_ms();
    if (p == MET) {
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      MPI_Comm_size(MPI_COMM_WORLD, &size);
    }
    memory[p] = gli_own_memory_kib() - before;
    descriptors[p] = count_descriptors();
    if (p > MET) MPI_Barrier(MPI_COMM_WORLD); /* until all have counted */
  }
  if (rank == 0) printf("%d processes\n", size);
  for (int p = 0; p < POINTS; p++) {
    double first, last, held[2] = {0}, open[2] = {0};
    MPI_Reduce(&from[p], &first, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&at[p], &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    middle_and_most(memory[p], rank, size, held);
    middle_and_most(descriptors[p], rank, size, open);
    if (rank != 0) continue;
    printf(
        "%-8s %10.1f ms; descriptors %.0f, %.0f at most; memory %.0f KiB, "
        "%.0f at most\n",
        names[p], last - first, open[0], open[1], held[0], held[1]);
  }
  MPI_Comm_free(&group);
  MPI_Finalize();
  return 0;
}
