/* A disk that fails or hangs, for one process: what is to reach the disk goes through here. What the
   file BAD_DISK says is done: "error" fails as broken hardware does, "hang" waits until it says
   something else, anything else is a good disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *word)
{
    char said[16] = "";
    const char *path = getenv("BAD_DISK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    ssize_t n = read(file, said, sizeof said - 1);
    close(file);
    return n > 0 && strncmp(said, word, strlen(word)) == 0;
}

static int sync_by(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    while (is("hang"))
        usleep(1000);
    if (is("error")) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

int fdatasync(int fd)
{
    return sync_by("fdatasync", fd);
}

int fsync(int fd)
{
    return sync_by("fsync", fd);
}
