# Lines of sh for root of a Linux that has four blank disks of 128 MiB, $disks, and in the
# current directory a file "one": mdadm makes volumes of every level on them, and on each
# a file system with that file. It takes a while where mdmon(8) is slow to start.
mkdir -p /run/mdadm /dev/md
mdadm -C /dev/md127 -e ddf -l container -n 4 $disks
make() {
	name=$1; node=$2; shift 2
	mdadm -C $node --run --assume-clean --name=$name -z 8M "$@" /dev/md127
	# It is written once mdmon(8), or somebody in its place, has let it.
	for try in 1 2 3 4 5 6 7 8 9 10; do
		[ $name = nought ] && break
		echo active >/sys/block/${node#/dev/}/md/array_state && break || sleep 1
	done
	mke2fs -q -t ext4 -O ^has_journal -N 16 -L $name $node
	mount $node /tmp/mnt
	cp one /tmp/mnt/one
	umount /tmp/mnt
}
make five /dev/md1 -l5 -n3 --chunk=64
make nought /dev/md2 -l0 -n2 --chunk=64
make copies /dev/md3 -l1 -n2
make ten /dev/md4 -l10 -n4 --chunk=64
make six /dev/md6 -l6 -n4 --chunk=64
make left /dev/md7 -l5 -n3 --chunk=32 --layout=la
# By the time they stop, mdmon(8) has written what there is to know.
sync
for node in /dev/md1 /dev/md2 /dev/md3 /dev/md4 /dev/md6 /dev/md7 /dev/md127; do
	for try in 1 2 3 4 5 6 7 8 9 10; do
		mdadm --stop $node && break || sleep 1
	done
done
sync
