/* `gloo bench overlap`. */
#ifndef GLI_TOOLS_OVERLAP_H
#define GLI_TOOLS_OVERLAP_H

int gli_bench_overlap(int argc, char **argv);

#endif
