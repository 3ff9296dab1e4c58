/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * udpnum: numbered UDP packets, and when each of them was sent and received by the TSC of this machine; or
 * the bytes of a TCP connection, by their offset in it.
 *
 *   udpnum send ADDRESS PORT COUNT HZ BURST SIZE    SIZE 0: 64 and more, another one for each of 997 packets
 *   udpnum recv PORT COUNT                          ends after COUNT packets, or 10 s without another one; 100 s
 *                                                   without the first one
 *   udpnum noise ADDRESS PORT HZ SIZE [forget]      packets of no number, until it is killed; forget: whose
 *                                                   hardware address is asked for again and again
 *   udpnum stream ADDRESS PORT COUNT HZ SIZE        SIZE 0: another one for each call, up to 60000
 *   udpnum sink PORT                                one connection, until its end
 *   udpnum tsc                                      prints the TSC
 *
 * Prints a line "NUMBER BEFORE AFTER SIZE" for each: the TSC before and after the call; the number of a TCP's is
 * its offset. BURST packets are sent at once, HZ in a second (0: as fast as it goes). Noise prints nothing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define SIZE_MIN  64u
#define SIZE_MAX_ 1400u
#define CHUNK_MAX 60000u
#define COUNT_MAX 100000u
#define PATIENCE  10 /* s */
#define FIRST	  100

struct packet {
	uint32_t number;
	uint32_t size;
	uint64_t before, after;
};

static int fail(const char *what)
{
	fprintf(stderr, "udpnum: %s: %s\n", what, strerror(errno));
	return 1;
}

static uint32_t number_of(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 0);
}

static void print_all(const struct packet *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		printf("%" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu32 "\n", p[i].number,
		       p[i].before, p[i].after, p[i].size);
}

static void pause_until(struct timespec *at, uint32_t packets, uint32_t hz)
{
	uint64_t ns = (uint64_t)at->tv_nsec + 1000000000ull * packets / hz;

	at->tv_sec += (time_t)(ns / 1000000000u);
	at->tv_nsec = (long)(ns % 1000000000u);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, at, NULL);
}

static int send_all(int fd, struct packet *p, uint32_t count, uint32_t hz, uint32_t burst,
		    uint32_t size)
{
	static char buf[SIZE_MAX_];
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	for (uint32_t i = 0; i < count; i++) {
		if (i && !(i % burst))
			pause_until(&at, burst, hz);
		p[i].number = i;
		p[i].size = size ? size : SIZE_MIN + i * 37 % 997;
		memcpy(buf, &i, sizeof(i));
		p[i].before = __rdtsc();
		if (send(fd, buf, p[i].size, 0) < 0)
			return fail("send");
		p[i].after = __rdtsc();
	}
	return 0;
}

/* Nobody need listen at that port: what is sent back is noise, too. */
static void noise(int fd, const struct sockaddr_in *to, uint32_t hz, uint32_t size, bool forget)
{
	static char buf[SIZE_MAX_];
	struct arpreq entry = { 0 };
	struct timespec at;

	memcpy(&entry.arp_pa, to, sizeof(*to));
	clock_gettime(CLOCK_MONOTONIC, &at);
	for (uint32_t i = 0;; i++) {
		if (forget && !(i % 8))
			(void)ioctl(fd, SIOCDARP, &entry);
		(void)sendto(fd, buf, size ? size : SIZE_MIN + i * 37 % 997, 0,
			     (const struct sockaddr *)to, sizeof(*to));
		pause_until(&at, 1, hz);
	}
}

/* A busy machine may take long to start who sends. */
static int be_patient(int fd, time_t s)
{
	struct timeval tv = { .tv_sec = s };

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

static uint32_t receive_all(int fd, struct packet *p, uint32_t count)
{
	static char buf[SIZE_MAX_];
	uint32_t n = 0;

	while (n < count) {
		ssize_t got;

		p[n].before = __rdtsc();
		got = recv(fd, buf, sizeof(buf), 0);
		p[n].after = __rdtsc();
		if (got < 0)
			break;
		if ((size_t)got < sizeof(p[n].number))
			continue;
		memcpy(&p[n].number, buf, sizeof(p[n].number));
		p[n++].size = (uint32_t)got;
		if (n == 1 && be_patient(fd, PATIENCE))
			break;
	}
	return n;
}

static int stream(int fd, struct packet *p, uint32_t count, uint32_t hz, uint32_t size)
{
	static char buf[CHUNK_MAX];
	struct timespec at;
	uint32_t offset = 0;

	clock_gettime(CLOCK_MONOTONIC, &at);
	for (uint32_t i = 0; i < count; i++) {
		if (i && hz)
			pause_until(&at, 1, hz);
		p[i].number = offset;
		p[i].size = size ? size : 1 + i * 7919 % CHUNK_MAX;
		p[i].before = __rdtsc();
		if (send(fd, buf, p[i].size, 0) != (ssize_t)p[i].size)
			return fail("send");
		p[i].after = __rdtsc();
		offset += p[i].size;
	}
	return 0;
}

static uint32_t sink(int fd, struct packet *p)
{
	static char buf[CHUNK_MAX];
	uint32_t n = 0, offset = 0;

	while (n < COUNT_MAX) {
		ssize_t got;

		p[n].before = __rdtsc();
		got = recv(fd, buf, sizeof(buf), 0);
		p[n].after = __rdtsc();
		if (got <= 0)
			break;
		p[n].number = offset;
		p[n++].size = (uint32_t)got;
		offset += (uint32_t)got;
	}
	return n;
}

/* stream ADDRESS PORT COUNT HZ SIZE | sink PORT */
static int tcp(int argc, char **argv, struct packet *p)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	struct sockaddr_in a = { .sin_family = AF_INET };
	uint32_t count = 0;

	a.sin_port = htons((uint16_t)number_of(argv[argc == 7 ? 3 : 2]));
	if (argc == 7) {
		count = number_of(argv[4]);
		if (count > COUNT_MAX || number_of(argv[6]) > CHUNK_MAX ||
		    inet_pton(AF_INET, argv[2], &a.sin_addr) != 1)
			return 2;
		if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) ||
		    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
		    stream(fd, p, count, number_of(argv[5]), number_of(argv[6])))
			return fail(argv[2]);
	} else {
		a.sin_addr.s_addr = htonl(INADDR_ANY);
		if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
		    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1))
			return fail("listen");
		fputs("ready\n", stderr);
		fd = accept(fd, NULL, NULL);
		if (fd < 0)
			return fail("accept");
		count = sink(fd, p);
	}
	print_all(p, count);
	return ferror(stdout) || fflush(stdout) ? fail("standard output") : 0;
}

int main(int argc, char **argv)
{
	bool noisy = argc >= 6 && !strcmp(argv[1], "noise");
	bool sends = argc == 8 && !strcmp(argv[1], "send");
	struct sockaddr_in a = { .sin_family = AF_INET };
	int room = 4 << 20, fd = socket(AF_INET, SOCK_DGRAM, 0);
	uint32_t count = argc > 3 ? number_of(argv[sends ? 4 : 3]) : 0;
	struct packet *p = calloc(COUNT_MAX, sizeof(*p));

	if (argc == 2 && !strcmp(argv[1], "tsc"))
		return printf("%llu\n", (unsigned long long)__rdtsc()) < 0;
	if (p &&
	    ((argc == 7 && !strcmp(argv[1], "stream")) || (argc == 3 && !strcmp(argv[1], "sink"))))
		return tcp(argc, argv, p);
	if (noisy && number_of(argv[4]) && number_of(argv[5]) <= SIZE_MAX_ && fd >= 0 &&
	    inet_pton(AF_INET, argv[2], &a.sin_addr) == 1) {
		a.sin_port = htons((uint16_t)number_of(argv[3]));
		noise(fd, &a, number_of(argv[4]), number_of(argv[5]), argc == 7);
	}
	if ((!sends && (argc != 4 || strcmp(argv[1], "recv"))) || !count || count > COUNT_MAX) {
		fputs("usage: udpnum send ADDRESS PORT COUNT HZ BURST SIZE | recv PORT COUNT |\n"
		      "       noise ADDRESS PORT HZ SIZE [forget] |\n"
		      "       stream ADDRESS PORT COUNT HZ SIZE | sink PORT | tsc\n",
		      stderr);
		return 2;
	}
	if (fd < 0 || !p)
		return fail("socket");
	a.sin_port = htons((uint16_t)number_of(argv[sends ? 3 : 2]));
	if (sends) {
		uint32_t size = number_of(argv[7]);

		if (inet_pton(AF_INET, argv[2], &a.sin_addr) != 1 || size > SIZE_MAX_ ||
		    !number_of(argv[5]) || !number_of(argv[6]))
			return 2;
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) ||
		    send_all(fd, p, count, number_of(argv[5]), number_of(argv[6]), size))
			return fail(argv[2]);
	} else {
		a.sin_addr.s_addr = htonl(INADDR_ANY);
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
		if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || be_patient(fd, FIRST))
			return fail("bind");
		fputs("ready\n", stderr);
		count = receive_all(fd, p, count);
	}
	print_all(p, count);
	free(p);
	return ferror(stdout) || fflush(stdout) ? fail("standard output") : 0;
}
