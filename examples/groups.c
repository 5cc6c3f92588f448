/* Ranks as a grid: each row and each column is a separate group, over the
 * existing connections. Sums are computed along rows and along columns.
 * usage: gloo run -n 6 -- groups */
#include <gloo_c/gloo_c.h>
#include <stdio.h>

/* Chooses a grid that is as square as the number of ranks allows. */
static int choose_rows(int ranks) {
  int rows = 1;
  for (int i = 2; i * i <= ranks; i++) {
    if (ranks % i == 0) rows = i;
  }
  return rows;
}

/* Adds the values of the ranks in a row or column. */
static gloo_status add_up(gloo_context *line, int value, int *sum) {
  int32_t total = value;
  gloo_status status = gloo_allreduce(line, GLOO_IN_PLACE, &total, 1,
                                      GLOO_INT32, GLOO_SUM, NULL, NULL);
  *sum = total;
  return status;
}

/* Ranks with the same color form a group, in the order of their keys. */
static gloo_status work(gloo_context *grid, gloo_error *error) {
  int rank = gloo_context_rank(grid), size = gloo_context_size(grid);
  int rows = choose_rows(size), columns = size / rows;
  int row = rank / columns, column = rank % columns;
  int along_row = 0, along_column = 0;
  gloo_context *my_row = NULL, *my_column = NULL;
  gloo_status status =
      gloo_context_split(grid, row, column, NULL, &my_row, error);
  if (status == GLOO_OK) {
    status = gloo_context_split(grid, column, row, NULL, &my_column, error);
  }
  if (status == GLOO_OK && add_up(my_row, rank, &along_row) != GLOO_OK) {
    status = gloo_context_error(my_row, error);
  }
  if (status == GLOO_OK && add_up(my_column, rank, &along_column) != GLOO_OK) {
    status = gloo_context_error(my_column, error);
  }
  if (status == GLOO_OK) {
    printf(
        "rank %d is (%d, %d) of %d x %d: its row adds up to %d, its column "
        "to %d\n",
        rank, gloo_context_rank(my_column), gloo_context_rank(my_row), rows,
        columns, along_row, along_column);
  }
  gloo_context_destroy(my_row);
  gloo_context_destroy(my_column);
  return status;
}

int main(void) {
  gloo_context *grid;
  gloo_error error;
  if (gloo_init(NULL, &grid, &error) != GLOO_OK) {
    fprintf(stderr, "groups: %s\n", error.message);
    return 1;
  }
  gloo_status status = work(grid, &error);
  if (status != GLOO_OK) fprintf(stderr, "groups: %s\n", error.message);
  gloo_context_destroy(grid);
  return status != GLOO_OK;
}
