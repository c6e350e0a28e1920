/* Processes that are left behind by who made them. */

/* Who is left behind gets another parent, and what it writes arrives. */
static int orphan(void)
{
	int fds[2], parent;
	char c;

	CHECK(!pipe(fds));
	if (!fork()) {
		parent = getpid();
		if (fork())
			_exit(0);
		while (getppid() == parent)
			usleep(100);
		_exit(write(fds[1], "o", 1) != 1);
	}
	wait(NULL);
	CHECK(read(fds[0], &c, 1) == 1);
	printf("%c\n", c);
	return 0;
}

/* Who is left behind and ends does not stay. */
static int orphans(void)
{
	int fds[2], pid;

	CHECK(!pipe(fds));
	for (int i = 0; i < 20; i++) {
		if (!fork()) {
			pid = fork();
			if (pid)
				_exit(write(fds[1], &pid, sizeof(pid)) != sizeof(pid));
			_exit(0);
		}
		wait(NULL);
		CHECK(read(fds[0], &pid, sizeof(pid)) == sizeof(pid));
		while (!kill(pid, 0))
			usleep(100);
	}
	puts("gone");
	return 0;
}

/* Children that stay, and hold nothing of who reads. */
static int wait_all(void)
{
	for (int i = 0; i < 100; i++) {
		if (fork())
			continue;
		close(1);
		close(2);
		for (;;)
			pause();
	}
	return 0;
}

/* And such as compute. */
static int leave(void)
{
	for (int i = 0; i < 3; i++) {
		if (fork())
			continue;
		close(1);
		close(2);
		for (;;)
			i = 3;
	}
	return 0;
}
