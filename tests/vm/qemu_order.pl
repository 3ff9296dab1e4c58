# SPDX-License-Identifier: GPL-2.0-or-later
#
# The way of each request of a guest that has one at a time, in a merged time line (text, ns) on stdin:
#
#   perl qemu_order.pl BOUND-US READS <LINES
#
#	guest	block:block_rq_issue
#	host	kvm:kvm_fast_mmio, or a kvm:kvm_mmio that writes: the doorbell
#	QEMU	virtio_queue_notify, virtio_blk_handle_read, virtio_blk_rw_complete, virtio_blk_req_complete,
#		virtio_notify_irqfd
#	host	kvm:kvm_msi_set_irq, or kvm:kvm_set_irq
#	guest	block:block_rq_complete
#
# QEMU's log may be off by BOUND us. At least READS requests must have gone that way, each stage once.
use strict;
use warnings;

my ($bound, $reads) = @ARGV;
my @stage = qw(issue doorbell notify handle rw req irqfd msi complete);
my %at; # stage -> times, in ns
while (my $line = <STDIN>) {
	my ($s, $ns, $event, $args) = $line =~ /\s(-?\d+)\.(\d{9})\s+(\w+:\w+):? ?(.*)$/ or next;
	my $t = $s * 1000000000 + $ns;
	my $what = { 'block:block_rq_issue' => 'issue', 'block:block_rq_complete' => 'complete',
		'kvm:kvm_fast_mmio' => 'doorbell', 'qemu:virtio_queue_notify' => 'notify',
		'qemu:virtio_blk_handle_read' => 'handle', 'qemu:virtio_blk_rw_complete' => 'rw',
		'qemu:virtio_blk_req_complete' => 'req', 'qemu:virtio_notify_irqfd' => 'irqfd',
		'kvm:kvm_msi_set_irq' => 'msi', 'kvm:kvm_set_irq' => 'msi' }->{$event};
	$what = 'doorbell' if $event eq 'kvm:kvm_mmio' && $args =~ /write/;
	push @{$at{$what}}, $t if $what;
}

# Of a sorted list: the first from t on.
sub after { my ($list, $t) = @_; for (@$list) { return $_ if $_ >= $t } return undef }

my ($off, $whole, $bad, %gap) = ($bound * 1000, 0, 0);
my @issue = @{$at{issue} // []};
for my $i (0 .. $#issue) {
	my ($begin, $end) = ($issue[$i], after($at{complete}, $issue[$i]));
	next if !defined $end || !grep { $_ > $begin && $_ < $end } @{$at{handle} // []};
	my @t = ($begin);
	for my $stage (@stage[1 .. 7]) {
		my @in = grep { $_ >= $begin - $off && $_ <= $end + $off } @{$at{$stage} // []};
		# A doorbell may be rung twice, and other vectors may be signalled meanwhile.
		my $one = $stage eq 'msi' ? after(\@in, $t[-1] - $off) : $in[0];
		if (!defined $one || ($stage =~ /notify|handle|rw|req|irqfd/ && @in != 1)) {
			print "request $i: ", scalar @in, " times $stage between issue and completion\n";
			$bad++;
		}
		push @t, $one // $t[-1];
	}
	push @t, $end;
	for my $k (1 .. $#t) {
		my $d = $t[$k] - $t[$k - 1];
		push @{$gap{$stage[$k]}}, $d;
		# Two lines of the log are off by the same; a line and another event by up to the bound.
		next if $d >= -$off;
		print "request $i: $stage[$k] is ", -$d, " ns before $stage[$k - 1]\n";
		$bad++;
	}
	$whole++;
}
for my $stage (@stage[1 .. $#stage]) {
	my @d = sort { $a <=> $b } @{$gap{$stage} // [0]};
	printf "%-9s %10.1f us after the stage before (median), least %.1f us\n", $stage, $d[@d / 2] / 1000,
		$d[0] / 1000;
}
print "$whole requests in order, the log off by at most $bound us\n";
exit($bad || $whole < $reads);
