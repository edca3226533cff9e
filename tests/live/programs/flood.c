/* flood CPU: sends packets to itself until it is killed, and has them received on CPU by an
 * interrupt (receive packet steering). All of it is in a network of its own, which ends with it.
 * Prints a line once it sends; exits with 77 where this machine cannot do that. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <signal.h>
#include <unistd.h>

#define CANNOT 77

static void steer(int cpu)
{
	FILE *file = fopen("/sys/class/net/lo/queues/rx-0/rps_cpus", "w");
	if (!file || fprintf(file, "%x", 1u << cpu) < 1 || fclose(file))
		exit(CANNOT);
}

int main(int argc, char **argv)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	char packet[1024] = "";

	if (argc != 2)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("sysfs", "/sys", "sysfs", 0, NULL))
		return CANNOT;
	int from = socket(AF_INET, SOCK_DGRAM, 0), at = socket(AF_INET, SOCK_DGRAM, 0);
	if (ioctl(from, SIOCSIFFLAGS, &lo) || bind(at, (struct sockaddr *)&to, sizeof(to)))
		return CANNOT;
	steer(atoi(argv[1]));
	puts("sending");
	fflush(stdout);
	/* Nobody reads: what does not fit into the socket is dropped, on the receiving CPU. */
	for (;;)
		sendto(from, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to));
}
