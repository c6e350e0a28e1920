# SPDX-License-Identifier: GPL-2.0-only
# Servers and clients of all kinds of sockets: one line for each that works.
use strict; use warnings;
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6 unpack_sockaddr_in6); use IO::Socket::INET; use IO::Socket::UNIX; use POSIX ();
$| = 1;
sub child { my $pid = fork; die "fork: $!" unless defined $pid; return $pid if $pid; $_[0]->(); POSIX::_exit(0) }

# TCP: a server, eight clients at a time, and what each has said.
my $server = IO::Socket::INET->new(Listen => 16, LocalAddr => "127.0.0.1") or die "listen: $@";
my $port = $server->sockport;
my @clients = map { my $n = $_; child(sub {
	my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die $@;
	print $s $n x 100_000, "\n"; $s->shutdown(1);
	my $answer = <$s>; POSIX::_exit($answer eq "had 100001 of $n\n" ? 0 : 1);
}) } 1 .. 8;
for (1 .. 8) {
	my $s = $server->accept or die "accept: $!";
	my $all = join "", <$s>;
	printf $s "had %d of %s\n", length $all, substr $all, 0, 1;
	close $s;
}
my $good = grep { waitpid $_, 0; $? == 0 } @clients;
print "tcp: $good of 8\n";
close $server;
print "refused: ", (IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) ? "no" : $!{ECONNREFUSED} ? "yes" : "$!"), "\n";

# TCP over IPv6.
socket(my $six, AF_INET6, SOCK_STREAM, 0) or die "IPv6: $!";
bind($six, pack_sockaddr_in6(0, inet_pton(AF_INET6, "::1"))) or die "bind ::1: $!";
listen($six, 1) or die $!;
my ($port6) = unpack_sockaddr_in6(getsockname $six);
my $pid = child(sub {
	socket(my $s, AF_INET6, SOCK_STREAM, 0) or die;
	connect($s, pack_sockaddr_in6($port6, inet_pton(AF_INET6, "::1"))) or die "connect: $!";
	syswrite $s, "over six\n";
});
accept(my $s6, $six) or die $!;
print "tcp6: ", scalar <$s6>;
waitpid $pid, 0;

# UDP
my $udp = IO::Socket::INET->new(Proto => "udp", LocalAddr => "127.0.0.1") or die $@;
my $to = IO::Socket::INET->new(Proto => "udp", PeerAddr => "127.0.0.1", PeerPort => $udp->sockport) or die $@;
$to->send("datagram") or die $!;
$udp->recv(my $got, 100);
print "udp: $got\n";

# Sockets with names, in a directory and without one, and those without names.
my $dir = "/tmp/sockets.$$"; mkdir $dir or die $!;
for my $name ("$dir/here", "\0nowhere.$$") {
	my $listen = IO::Socket::UNIX->new(Local => $name, Listen => 1) or die "unix: $!";
	my $pid = child(sub { my $s = IO::Socket::UNIX->new(Peer => $name) or die $!; print $s "by name\n" });
	print "unix: ", scalar readline $listen->accept;
	waitpid $pid, 0;
}
unlink "$dir/here"; rmdir $dir;
socketpair(my $a, my $b, AF_UNIX, SOCK_SEQPACKET, 0) or die $!;
syswrite $a, $_ for qw(one two three);
sysread $b, my $message, 100;
print "pair: $message\n";

# Waiting for several.
my $bits = ""; vec($bits, fileno($_), 1) = 1 for $b, $udp;
my $ready = select(my $found = $bits, undef, undef, 60);
print "select: $ready ", vec($found, fileno($b), 1), vec($found, fileno($udp), 1), "\n";
