/* Heat in a rod that is hot at one end: each rank has some of the points, and
 * receives the adjacent ones from its neighbours.
 * usage: gloo run -n 4 -- from_mpi */
#include <gloo_c/gloo_c.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_POINTS = 31, STEPS = 300, REPORT = 5 };

static void check(gloo_status status, const gloo_error *error) {
  if (status == GLOO_OK) return;
  fprintf(stderr, "from_mpi: %s\n", error->message);
  exit(1);
}

/* MPI_Sendrecv, with MPI_PROC_NULL beyond the ends. The rank's own points are
 * rod[1] to rod[n]; without a neighbour rod[0] or rod[n + 1] is unchanged. */
static void exchange(gloo_context *context, double *rod, size_t n) {
  gloo_error error;
  int rank = gloo_context_rank(context), size = gloo_context_size(context);
  int left = rank > 0 ? rank - 1 : GLOO_NO_RANK;
  int right = rank + 1 < size ? rank + 1 : GLOO_NO_RANK;
  check(gloo_sendrecv(context, &rod[1], 1, left, &rod[n + 1], 1, right,
                      GLOO_FLOAT64, NULL, &error),
        &error);
  check(gloo_sendrecv(context, &rod[n], 1, right, &rod[0], 1, left,
                      GLOO_FLOAT64, NULL, &error),
        &error);
}

/* Sets every point to the mean of its two neighbours. Returns the largest
 * change of this rank's points. */
static double relax(double *rod, size_t n) {
  double change = 0, before = rod[0];
  for (size_t i = 1; i <= n; i++) {
    double here = rod[i];
    rod[i] = (before + rod[i + 1]) / 2;
    change = fmax(change, fabs(rod[i] - here));
    before = here;
  }
  return change;
}

/* MPI_Gatherv. Contiguous blocks need no displacements. */
static void gather(gloo_context *context, const double *mine,
                   const size_t *counts, double *all) {
  gloo_error error;
  check(gloo_gatherv(context, mine, counts[gloo_context_rank(context)], all,
                     counts, NULL, GLOO_FLOAT64, 0, NULL, &error),
        &error);
}

int main(void) {
  gloo_error error;
  gloo_context *context; /* MPI_Init; the context is MPI_COMM_WORLD */
  check(gloo_init(NULL, &context, &error), &error);
  size_t rank = (size_t)gloo_context_rank(context);
  size_t size = (size_t)gloo_context_size(context);

  if (size > N_POINTS) {
    fprintf(stderr, "from_mpi: %d points are too few for %zu ranks\n", N_POINTS,
            size);
    return 1;
  }
  double rod[N_POINTS + 2] = {0}, all[N_POINTS], change = 0;
  size_t counts[N_POINTS] = {0};
  for (size_t i = 0; i < N_POINTS; i++) counts[i * size / N_POINTS]++;
  size_t n = counts[rank];
  if (rank == 0) rod[0] = 100;

  for (int step = 1; step <= STEPS; step++) {
    exchange(context, rod, n);
    change = relax(rod, n);
    /* MPI_Allreduce with MPI_IN_PLACE */
    check(gloo_allreduce(context, GLOO_IN_PLACE, &change, 1, GLOO_FLOAT64,
                         GLOO_MAX, NULL, &error),
          &error);
  }
  gather(context, &rod[1], counts, all);
  for (size_t i = 0; rank == 0 && i < N_POINTS; i += REPORT) {
    printf("point %2zu: %9.5f\n", i, all[i]);
  }
  if (rank == 0) printf("last change: %.3e\n", change);
  gloo_context_destroy(context); /* MPI_Finalize */
  return 0;
}
