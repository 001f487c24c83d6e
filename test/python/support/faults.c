/* A library for LD_PRELOAD that makes one file-changing call of a program fail,
 * or kills the program during the call. Environment variables configure it:
 *
 *   FAULT_UNDER  prefix of the paths whose calls count
 *   FAULT_CALL   kind of the calls that count: write, fsync, rename, mkdir, any
 *   FAULT_AT     index of the call, from 1; 0 injects no fault
 *   FAULT_KILL   if set, the call kills the program, a write after half its bytes
 *   FAULT_HANG   if set, the call does not return
 *   FAULT_COUNT  output file for the number of calls
 *   FAULT_TRACE  output file with a line for each call: its name and path
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long count;

static int isDue(const char *call, const char *path) {
  const char *under = getenv("FAULT_UNDER"), *wanted = getenv("FAULT_CALL"),
             *at = getenv("FAULT_AT");
  if (!under || !at || strncmp(path, under, strlen(under)) != 0)
    return 0;
  if (strcmp(wanted, "any") != 0 && strcmp(wanted, call) != 0)
    return 0;
  if (getenv("FAULT_TRACE")) {
    FILE *trace = fopen(getenv("FAULT_TRACE"), "a");
    fprintf(trace, "%s %s\n", call, path);
    fclose(trace);
  }
  return ++count == atol(at);
}

static int isDueAt(const char *call, int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof(path) - 1);
  path[length < 0 ? 0 : length] = 0;
  return isDue(call, path);
}

static int refuse(int number) {
  if (getenv("FAULT_KILL"))
    kill(getpid(), SIGKILL);
  while (getenv("FAULT_HANG"))
    pause();
  errno = number;
  return -1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *bytes, size_t size) {
  if (!isDueAt("write", descriptor))
    return REAL(write)(descriptor, bytes, size);
  if (getenv("FAULT_KILL"))
    REAL(write)(descriptor, bytes, size / 2);
  return refuse(ENOSPC);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t offset) {
  if (!isDueAt("write", descriptor))
    return REAL(pwrite)(descriptor, bytes, size, offset);
  if (getenv("FAULT_KILL"))
    REAL(pwrite)(descriptor, bytes, size / 2, offset);
  return refuse(ENOSPC);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t size,
                 off64_t offset) {
  return pwrite(descriptor, bytes, size, offset);
}

int fsync(int descriptor) {
  return isDueAt("fsync", descriptor) ? refuse(EIO) : REAL(fsync)(descriptor);
}

int rename(const char *from, const char *to) {
  return isDue("rename", to) ? refuse(EIO) : REAL(rename)(from, to);
}

int mkdir(const char *path, mode_t mode) {
  return isDue("mkdir", path) ? refuse(EROFS) : REAL(mkdir)(path, mode);
}

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("FAULT_COUNT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file)
    return;
  fprintf(file, "%ld\n", count);
  fclose(file);
}
