/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A worker process: jailed before it boots, jailed for good before the kernel
 * sees what is in the image. usage: jail KERNEL IMAGE OUTSIDE
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tane.h>

static char text[64];

static void check(int holds, const char *what)
{
	if (!holds)
		errx(1, "%s (errno %d, %s)", what, errno, tane_error_message());
}

static void *sleeper(void *arg)
{
	pause();
	return arg;
}

static void no_thread_may_be_left_outside(const char *image)
{
	const char *read[] = { image, NULL };
	struct tane_jail_options options = { .size = sizeof(options), .read = read };
	pthread_t thread;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		check(pthread_create(&thread, NULL, sleeper, NULL) == 0, "a thread");
		_exit(tane_jail(&options) == -EBUSY ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "EBUSY");
}

static void a_socket_ends_the_process(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		check(tane_jail(NULL) >= 0, "jail");
		socket(AF_INET, SOCK_STREAM, 0);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "SIGSYS");
}

int main(int argc, char **argv)
{
	if (argc != 4)
		errx(2, "three arguments");
	const char *read[] = { argv[1], argv[2], NULL };
	struct tane_jail_options first = {
		.size = sizeof(first),
		.read = read,
		.memory = 1 << 30,
		.flags = TANE_JAIL_BOOTS,
	};
	struct tane_disk_options disk_options = {
		.size = sizeof(disk_options), .flags = TANE_DISK_SNAPSHOT,
	};
	struct tane_kernel *kernel;
	struct tane_disk *disk;
	struct tane_mount *mount;
	struct tane_file *file;
	int held;

	no_thread_may_be_left_outside(argv[2]);
	a_socket_ends_the_process();

	held = tane_jail(&first);
	check(held >= 0, "the first jail");
	if (held < 2)
		check(open(argv[3], O_RDONLY) < 0 && errno == EACCES, "outside");
	check(tane_kernel_boot(NULL, &kernel) == 0, "boot");
	check(tane_disk_open(kernel, argv[2], &disk_options, &disk) == 0, "disk");
	check(tane_jail(NULL) >= 0, "the second jail");
	check(open(argv[2], O_RDONLY) < 0 && errno == EACCES, "the image again");
	check(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0) == MAP_FAILED, "code");

	check(tane_mount(kernel, tane_disk_device(disk), NULL, &mount) == 0, "mount");
	check(tane_open(mount, "/hello", O_RDONLY, 0, &file) == 0, "open");
	check(tane_read(file, text, sizeof(text)) == 7, "read");
	check(memcmp(text, "from C\n", 7) == 0, "the text");
	tane_close(file);
	check(tane_unmount(mount) == 0, "unmount");
	tane_disk_close(disk);
	tane_kernel_close(kernel);
	return 0;
}
