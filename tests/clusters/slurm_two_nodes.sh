#!/bin/bash
# A real Slurm cluster of two nodes on one machine, for `make test-cluster`. Needs root and the packages slurm-wlm and munge.
#   bash tests/clusters/slurm_two_nodes.sh start
#   KILL_WAIT=10 bash tests/clusters/slurm_two_nodes.sh start   # less time between the two signals of a time limit
#   bash tests/clusters/slurm_two_nodes.sh stop
set -eu

start() {
  command -v slurmctld > /dev/null || { apt-get update -qq; apt-get install -y -qq --no-install-recommends slurm-wlm munge; }
  sinfo > /dev/null 2>&1 && { sinfo; return; }
  local host
  host=$(hostname -s)
  mkdir -p /etc/slurm /var/spool/slurmctld /var/spool/slurmd-n1 /var/spool/slurmd-n2 /run/munge /var/log/munge
  chown munge:munge /run/munge /var/log/munge
  cat > /etc/slurm/slurm.conf << CONF
ClusterName=two
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=${KILL_WAIT:-30}
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd-%n
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldPidFile=/run/slurmctld.pid
SlurmdLogFile=/var/log/slurmd-%n.log
SlurmctldLogFile=/var/log/slurmctld.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[7001-7002] CPUs=2 State=UNKNOWN
PartitionName=p Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:32
CONF
  if [ ! -f /etc/munge/munge.key ]; then
    head -c 1024 /dev/urandom > /etc/munge/munge.key
    chown munge:munge /etc/munge/munge.key
    chmod 400 /etc/munge/munge.key
  fi
  su -s /bin/sh munge -c munged
  sleep 1
  slurmctld
  slurmd -N n1
  slurmd -N n2
  for _ in $(seq 20); do
    [ "$(sinfo -h -t idle -o %D 2> /dev/null)" = 2 ] && break
    sleep 1
  done
  sinfo
}

stop() {
  for file in /run/slurmd-n1.pid /run/slurmd-n2.pid /run/slurmctld.pid /run/munge/munged.pid; do
    if [ -f "$file" ]; then kill "$(cat "$file")" || true; fi
  done
}

case "${1:-start}" in
  start) start ;;
  stop) stop ;;
  *) echo "usage: $0 start|stop" >&2; exit 2 ;;
esac
