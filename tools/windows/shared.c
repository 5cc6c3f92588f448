/* Memory that ranks share, on Windows: anonymous, and duplicated from the
 * process that made it. */
#include <string.h>

#include "tools/bench_shared.h"
#include "windows/posix.h"

enum { WORD_PROCESS, WORD_HANDLE, WORD_MADE };

static void *shared_map(HANDLE section, size_t bytes) {
  return MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, bytes);
}

void *gli_shared_create(size_t bytes, gli_shared_key *key) {
  memset(key, 0, sizeof *key);
  HANDLE section = CreateFileMappingW(
      INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE,
      (DWORD)((uint64_t)bytes >> 32), (DWORD)(bytes & UINT32_MAX), NULL);
  void *memory = section != NULL ? shared_map(section, bytes) : NULL;
  if (memory == NULL) {
    if (section != NULL) (void)CloseHandle(section);
    return NULL;
  }
  key->words[WORD_PROCESS] = GetCurrentProcessId();
  key->words[WORD_HANDLE] = (uint64_t)(uintptr_t)section;
  key->words[WORD_MADE] = 1;
  return memory;
}

void *gli_shared_open(size_t bytes, const gli_shared_key *key) {
  HANDLE maker = NULL, section = NULL;
  void *memory = NULL;
  if (key->words[WORD_MADE] != 0)
    maker =
        OpenProcess(PROCESS_DUP_HANDLE, FALSE, (DWORD)key->words[WORD_PROCESS]);
  if (maker == NULL) return NULL;
  if (DuplicateHandle(maker, (HANDLE)(uintptr_t)key->words[WORD_HANDLE],
                      GetCurrentProcess(), &section, 0, FALSE,
                      DUPLICATE_SAME_ACCESS)) {
    memory = shared_map(section, bytes);
    (void)CloseHandle(section);
  }
  (void)CloseHandle(maker);
  return memory;
}

void gli_shared_close_key(const gli_shared_key *key) {
  if (key->words[WORD_MADE] != 0)
    (void)CloseHandle((HANDLE)(uintptr_t)key->words[WORD_HANDLE]);
}

void gli_shared_unmap(void *memory, size_t bytes) {
  (void)bytes;
  (void)UnmapViewOfFile(memory);
}
