/* Threads and time, as POSIX calls them. */
#include "windows/posix.h"

#define SECOND_NS UINT64_C(1000000000)
/* Hundreds of nanoseconds from 1601 to 1970. */
#define EPOCH UINT64_C(116444736000000000)

typedef struct started {
  void *(*run)(void *argument);
  void *argument;
} started;

static DWORD WINAPI thread_run(void *argument) {
  started it = *(started *)argument;
  free(argument);
  (void)it.run(it.argument);
  return 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*run)(void *), void *argument) {
  started *it = malloc(sizeof *it);
  if (it == NULL) return ENOMEM;
  *it = (started){run, argument};
  *thread = CreateThread(NULL, 0, thread_run, it, 0, NULL);
  if (*thread == NULL) {
    free(it);
    return EAGAIN;
  }
  if (attributes != NULL && *attributes == PTHREAD_CREATE_DETACHED)
    (void)CloseHandle(*thread);
  return 0;
}

/* The library uses no results of threads. */
int pthread_join(pthread_t thread, void **result) {
  if (result != NULL) *result = NULL;
  bool ended = WaitForSingleObject(thread, INFINITE) == WAIT_OBJECT_0;
  return ended && CloseHandle(thread) ? 0 : EINVAL;
}

int pthread_detach(pthread_t thread) {
  return CloseHandle(thread) ? 0 : EINVAL;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex) {
  return uv_mutex_trylock(mutex) == 0 ? 0 : EBUSY;
}

int gli_windows_clock(clockid_t clock, struct timespec *now) {
  uint64_t ns = uv_hrtime();
  if (clock == CLOCK_REALTIME) {
    FILETIME time;
    GetSystemTimePreciseAsFileTime(&time);
    ns = ((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) - EPOCH;
    ns *= 100;
  }
  now->tv_sec = (time_t)(ns / SECOND_NS);
  now->tv_nsec = (long)(ns % SECOND_NS);
  return 0;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until) {
  uint64_t due = (uint64_t)until->tv_sec * SECOND_NS + (uint64_t)until->tv_nsec;
  uint64_t now = uv_hrtime();
  if (due <= now) return ETIMEDOUT;
  return uv_cond_timedwait(condition, mutex, due - now) == 0 ? 0 : ETIMEDOUT;
}

int gli_windows_nanosleep(const struct timespec *time, struct timespec *left) {
  uint64_t ns = (uint64_t)time->tv_sec * SECOND_NS + (uint64_t)time->tv_nsec;
  if (left != NULL) *left = (struct timespec){0, 0};
  if (ns < 100000)
    (void)SwitchToThread();
  else
    Sleep((DWORD)((ns + 999999) / 1000000));
  return 0;
}
