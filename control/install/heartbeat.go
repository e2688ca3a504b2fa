// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

// HeartbeatFormats are the forms of what a new heartbeat secret needs of an operator
// that runs already.
func HeartbeatFormats() []Format { return []Format{Shell, Systemd, Process} }

// HeartbeatBlocks put a new heartbeat secret, and nothing else, into an operator that
// runs already (HB-16). Its collector reads the secret at every beat, so it goes on
// as it is where the file changes under it (HB-17).
func (o Operator) HeartbeatBlocks(f Format) []Block {
	id := o.Operator.ID
	o.Receiver, o.Export, o.ReceiverKeys, o.ExportKeys = Secret{}, Secret{}, nil, nil
	switch f {
	case Shell:
		values := map[string]any{"heartbeat": o.values()["heartbeat"]}
		return append(o.secretBlocks(), o.Charts.upgrade(inOperatorCluster, "turn the heartbeat on; every other value stays", id, o.chart(), values))
	case Systemd: // which hands a copy of the file to the service when it starts
		return append(secretFiles(onOperatorMachine+asRoot, lastingDir(id), o.secrets()),
			Block{onOperatorMachine + asRoot, "start it again with the new secret", "restart.sh", ShellWords("systemctl", "restart", "continuum-"+id+".service") + "\n"})
	default:
		return secretFiles(onOperatorMachine, lastingDir(id), o.secrets())
	}
}
