/* Removal of a directory. The including file defines _XOPEN_SOURCE 700 first. */
#ifndef TESTS_REMOVE_TREE_H
#define TESTS_REMOVE_TREE_H

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

static inline int remove_tree_entry(const char *path, const struct stat *info,
                                    int type, struct FTW *where) {
  (void)info, (void)type, (void)where;
  return remove(path);
}

/* Removes the directory and everything in it. Returns 0, or another number if
 * something stays. */
static inline int remove_tree(const char *path) {
  return nftw(path, remove_tree_entry, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
